"""Checks of the register slave: every bit held, every word at its place, nothing anywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bitlane.contract.registers import CONTROL_ABORT, CONTROL_ACKNOWLEDGE, CONTROL_START, REGISTERS, STATUS_BUSY
from bitlane.devices.protocol import Device

from .bench import Check, CheckContext, RegisterWord, expect, register_words
from .report import Figures

WINDOW_BYTES = 1 << 12  # that the register slave decodes
WORD = 0xFFFF_FFFF
ORDERS = CONTROL_START | CONTROL_ABORT | CONTROL_ACKNOWLEDGE

WRITABLE = tuple(word for word in register_words() if word.register.writable)
READ_ONLY = tuple(word for word in register_words() if not word.register.writable)


@contextmanager
def kept(device: Device) -> Iterator[None]:
    """Whatever happens inside, the writable registers hold afterwards what they held before."""
    before = [device.read(word.offset) for word in WRITABLE]
    try:
        yield
    finally:
        for word, value in zip(WRITABLE, before, strict=True):
            device.write(word.offset, value)


def idle(bench: CheckContext) -> Figures:
    """Nothing runs, and `control`, which is written only, reads 0."""
    status, control = (bench.device.read(REGISTERS[name].offset) for name in ("status", "control"))
    expect(not status & STATUS_BUSY, f"status is {status:#x}: a run of somebody else is going on")
    expect(control == 0, f"control reads {control:#x} instead of 0")
    return {"status": f"{status:#x}"}


def holds(bench: CheckContext) -> Figures:
    """A one, and a zero, walk through every word; bits that a register does not have read 0."""
    device = bench.device
    walk = [0, WORD, *(1 << bit for bit in range(32)), *(WORD ^ 1 << bit for bit in range(32))]
    with kept(device):
        for word in WRITABLE:
            for value in walk:
                device.write(word.offset, value)
                _reads(device, word, value & word.mask)
    return {"registers": len({word.register.name for word in WRITABLE}), "bits": _bits(WRITABLE)}


def apart(bench: CheckContext) -> Figures:
    """All words hold something of their own at the same time."""
    device = bench.device
    values = [int(value) for value in bench.rng.integers(0, WORD, len(WRITABLE), endpoint=True)]
    with kept(device):
        for word, value in zip(WRITABLE, values, strict=True):
            device.write(word.offset, value)
        for word, value in zip(WRITABLE, values, strict=True):
            _reads(device, word, value & word.mask)
    return {"words": len(WRITABLE)}


def read_only(bench: CheckContext) -> Figures:
    """Words that cannot be written stay as they are."""
    device = bench.device
    for word in READ_ONLY:
        before = device.read(word.offset)
        device.write(word.offset, before ^ WORD)
        _reads(device, word, before)
    return {"words": len(READ_ONLY)}


def gaps(bench: CheckContext) -> Figures:
    """Offsets without a register read 0, swallow what is written, and are no second place of a register."""
    device = bench.device
    taken = {register.offset + 4 * word for register in REGISTERS.values() for word in range(register.words)}
    empty = [offset for offset in range(0, WINDOW_BYTES, 4) if offset not in taken]
    with kept(device):
        before = [device.read(word.offset) for word in WRITABLE]
        for offset in empty:
            for _ in range(2):
                value = device.read(offset)
                expect(value == 0, f"offset {offset:#05x}, where there is no register, reads {value:#x}")
                device.write(offset, WORD ^ ORDERS)  # if it is `control` after all, nothing starts
        for word, value in zip(WRITABLE, before, strict=True):
            _reads(device, word, value)
    return {"offsets": len(empty)}


def _reads(device: Device, word: RegisterWord, expected: int) -> None:
    value = device.read(word.offset)
    expect(value == expected, f"{word.name} at {word.offset:#05x} reads {value:#010x} instead of {expected:#010x}")


def _bits(words: tuple[RegisterWord, ...]) -> int:
    return sum(bin(word.mask).count("1") for word in words)


CHECKS = (
    Check("registers: idle", idle),
    Check("registers: hold what is written", holds),
    Check("registers: each its own", apart),
    Check("registers: read only", read_only),
    Check("registers: nothing between them", gaps),
)
