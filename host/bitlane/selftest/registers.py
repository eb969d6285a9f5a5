"""Checks of the register file: every bit holds, every register has its own address, and gaps read 0."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bitlane.contract.registers import (
    CONTROL_ABORT,
    CONTROL_ACKNOWLEDGE,
    CONTROL_ENCODE,
    CONTROL_START,
    REGISTERS,
    STATUS_BUSY,
)
from bitlane.devices.protocol import Device

from .bench import BlockCheck, CheckContext, RegisterWord, expect, register_words
from .blocks import REGISTER_FILE
from .report import Figures

WINDOW_BYTES = 1 << 12  # that the register file decodes
WORD = 0xFFFF_FFFF
COMMANDS = CONTROL_START | CONTROL_ABORT | CONTROL_ACKNOWLEDGE | CONTROL_ENCODE


def writable_words(bench: CheckContext) -> list[RegisterWord]:
    """Return the words that the host can write."""
    return [word for word in register_words(bench.config) if word.register.writable]


@contextmanager
def restored_registers(bench: CheckContext) -> Iterator[None]:
    """Restore the writable registers at the end."""
    words = writable_words(bench)
    before = [bench.device.read(word.offset) for word in words]
    try:
        yield
    finally:
        for word, value in zip(words, before, strict=True):
            bench.device.write(word.offset, value)


def idle(bench: CheckContext) -> Figures:
    """Check that no run is in progress and that `control`, which is write only, reads 0."""
    status, control = bench.read("status"), bench.read("control")
    expect(not status & STATUS_BUSY, f"status is {status:#x}: another program is running the accelerator")
    expect(control == 0, f"control reads {control:#x} instead of 0")
    return {"status": f"{status:#x}"}


def holds(bench: CheckContext) -> Figures:
    """Write a walking one and a walking zero to every word. Bits that a register does not have read 0."""
    device, words = bench.device, writable_words(bench)
    walk = [0, WORD, *(1 << bit for bit in range(32)), *(WORD ^ 1 << bit for bit in range(32))]
    with restored_registers(bench):
        for word in words:
            for value in walk:
                device.write(word.offset, value)
                _expect_word(device, word, value & word.mask)
    return {"registers": len({word.register.name for word in words}), "bits": _bits(words)}


def separate(bench: CheckContext) -> Figures:
    """Write a different value to every word, then read all of them."""
    device, words = bench.device, writable_words(bench)
    values = [int(value) for value in bench.rng.integers(0, WORD, len(words), endpoint=True)]
    with restored_registers(bench):
        for word, value in zip(words, values, strict=True):
            device.write(word.offset, value)
        for word, value in zip(words, values, strict=True):
            _expect_word(device, word, value & word.mask)
    return {"words": len(words)}


def read_only(bench: CheckContext) -> Figures:
    """Write to the read-only words, which must keep their values."""
    device = bench.device
    words = [word for word in register_words(bench.config) if not word.register.writable]
    for word in words:
        before = device.read(word.offset)
        device.write(word.offset, before ^ WORD)
        _expect_word(device, word, before)
    return {"words": len(words)}


def gaps(bench: CheckContext) -> Figures:
    """Check that offsets without a register read 0, ignore writes, and do not repeat a register."""
    device, words = bench.device, writable_words(bench)
    taken = {REGISTERS["control"].offset, *(word.offset for word in register_words(bench.config))}
    empty = [offset for offset in range(0, WINDOW_BYTES, 4) if offset not in taken]
    with restored_registers(bench):
        before = [device.read(word.offset) for word in words]
        for offset in empty:
            for _ in range(2):
                value = device.read(offset)
                expect(value == 0, f"offset {offset:#05x} has no register and reads {value:#x} instead of 0")
                device.write(offset, WORD ^ COMMANDS)  # if it is `control` after all, nothing starts
        for word, value in zip(words, before, strict=True):
            _expect_word(device, word, value)
    return {"offsets": len(empty)}


def _expect_word(device: Device, word: RegisterWord, expected: int) -> None:
    value = device.read(word.offset)
    expect(value == expected, f"{word.name} at {word.offset:#05x} reads {value:#010x} instead of {expected:#010x}")


def _bits(words: list[RegisterWord]) -> int:
    return sum(bin(word.mask).count("1") for word in words)


CHECKS = (
    BlockCheck(REGISTER_FILE, "idle", idle),
    BlockCheck(REGISTER_FILE, "registers hold values", holds),
    BlockCheck(REGISTER_FILE, "registers are separate", separate),
    BlockCheck(REGISTER_FILE, "read-only registers", read_only),
    BlockCheck(REGISTER_FILE, "gaps between registers", gaps),
)
