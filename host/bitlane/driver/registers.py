"""Registers of a device by name, and fields of registers."""

from __future__ import annotations

from bitlane.contract.registers import FIELDS, REGISTERS
from bitlane.devices.protocol import Device


def read(device: Device, name: str) -> int:
    """A register, of one or two words, or a field of one. KeyError for a name that the table has not."""
    if name in FIELDS:
        home, _ = FIELDS[name]
        return home.unpack(read(device, home.name))[name]
    register = REGISTERS[name]
    return sum(device.read(register.offset + 4 * word) << 32 * word for word in range(register.words))


def write(device: Device, name: str, value: int) -> None:
    """Writes a register, the low word first, or a field of one, whose other fields stay. KeyError as in `read`.

    ValueError for a value that does not fit.
    """
    if name in FIELDS:
        home, field = FIELDS[name]
        _fits(name, value, field.bits)
        write(device, home.name, home.pack(home.unpack(read(device, home.name)) | {name: value}))
        return
    register = REGISTERS[name]
    _fits(name, value, 32 * register.words)
    for word in range(register.words):
        device.write(register.offset + 4 * word, value >> 32 * word & 0xFFFF_FFFF)


def _fits(name: str, value: int, bits: int) -> None:
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{name}={value} does not fit {bits} bits")
