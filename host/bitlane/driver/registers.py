"""Registers of a device by name, and fields of registers."""

from __future__ import annotations

from bitlane.contract.registers import FIELDS
from bitlane.contract.software_registers import EVERY_REGISTER
from bitlane.devices.protocol import Device


def read(device: Device, name: str) -> int:
    """Return the value of a register or of a field. Raise KeyError for an unknown name.

    Parameters
    ----------
    device : Device
    name : str
        Name of a register of one or two words, or of a field.
    """
    if name in FIELDS:
        home, _ = FIELDS[name]
        return home.unpack(read(device, home.name))[name]
    register = EVERY_REGISTER[name]
    return sum(device.read(register.offset + 4 * word) << 32 * word for word in range(register.words))


def write(device: Device, name: str, value: int) -> None:
    """Write a register, the low word first, or a field of a register, whose other fields keep their values.

    Parameters
    ----------
    device : Device
    name : str
        Name of a register of one or two words, or of a field.
    value : int

    Raises
    ------
    KeyError
        The name is unknown.
    ValueError
        The value does not fit.
    """
    if name in FIELDS:
        home, field = FIELDS[name]
        _fits(name, value, field.bits)
        write(device, home.name, home.pack(home.unpack(read(device, home.name)) | {name: value}))
        return
    register = EVERY_REGISTER[name]
    _fits(name, value, 32 * register.words)
    for word in range(register.words):
        device.write(register.offset + 4 * word, value >> 32 * word & 0xFFFF_FFFF)


def _fits(name: str, value: int, bits: int) -> None:
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{name}={value} does not fit {bits} bits")
