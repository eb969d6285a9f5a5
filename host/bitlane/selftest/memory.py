"""Checks of the memory that host and accelerator share."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.layout import DIGIT_BITS, WORD_BYTES
from bitlane.contract.packing import Words
from bitlane.contract.precision import Precision
from bitlane.devices.protocol import Buffer
from bitlane.driver.job import PAGE
from bitlane.errors import DeviceError

from .bench import Check, CheckContext, expect
from .cases import Case
from .report import Figures

SIZES = (WORD_BYTES, PAGE - WORD_BYTES, PAGE, PAGE + WORD_BYTES, 1 << 20)  # bytes


def round_trip(bench: CheckContext) -> Figures:
    """What the host wrote is there after a flush and an invalidate, in buffers of any size, all at a time."""
    with ExitStack() as stack:
        buffers = [_allocate(bench, stack, size) for size in SIZES]
        spans = sorted((buffer.device_address, size) for buffer, size in zip(buffers, SIZES, strict=True))
        for (address, size), (following, _) in pairwise(spans):
            expect(address + size <= following, f"two buffers share the memory at {following:#x}")
        patterns = [_fill(bench, buffer) for buffer in buffers]
        for buffer, pattern in zip(buffers, patterns, strict=True):
            _holds(bench, buffer, pattern)
    return {"buffers": len(SIZES), "bytes": sum(SIZES)}


def copied(bench: CheckContext) -> Figures:
    """The accelerator reads as large a model as it takes and writes it back, and steps of 0 change nothing."""
    job, _ = Case(
        Precision(DIGIT_BITS),
        features=bench.driver.config.max_features,
        rows=1,
        epochs=1,
        settings={"step": 0, "step_negative": 0},
    ).make(bench)
    outcome = bench.driver.run(job)
    wrong = np.flatnonzero(outcome.state.master != job.state.master)
    expect(
        not len(wrong),
        f"{len(wrong)} of {job.state.master.size:,} weights came back changed, the first number {_first(wrong)}",
    )
    return {"weights": int(job.state.master.size), "beats": outcome.counters.beats}


def far_apart(bench: CheckContext) -> Figures:
    """A model travels beyond half of the memory, of which every page keeps what it holds."""
    with ExitStack() as stack:
        half = _half(bench, stack)
        pages = half.array[:: PAGE // WORD_BYTES]
        tags = np.arange(len(pages), dtype=np.uint64) ^ bench.rng.integers(1 << 63, dtype=np.uint64)
        pages[:] = tags
        bench.device.flush(half)
        beyond = _allocate(bench, stack, PAGE)
        pattern = _fill(bench, beyond)
        copied(bench)
        _holds(bench, beyond, pattern)
        bench.device.invalidate(half)
        wrong = np.flatnonzero(pages != tags)
        expect(not len(wrong), f"{len(wrong)} of {len(pages):,} pages changed, the first number {_first(wrong)}")
    return {"pages": len(tags), "MiB": len(tags) * PAGE / (1 << 20)}


def _half(bench: CheckContext, stack: ExitStack) -> Buffer:
    """Half of the memory, or as much of it as there is in one piece."""
    size = bench.device.capacity_bytes // 2
    while True:
        try:
            return _allocate(bench, stack, size)
        except DeviceError:
            if size <= PAGE:
                raise
            size //= 2


def _allocate(bench: CheckContext, stack: ExitStack, size: int) -> Buffer:
    buffer = bench.device.allocate(size)
    stack.callback(buffer.free)
    expect(buffer.device_address % PAGE == 0, f"a buffer lies at {buffer.device_address:#x}, inside a page")
    expect(len(buffer.array) == -(-size // WORD_BYTES), f"a buffer of {size} bytes has {len(buffer.array)} words")
    return buffer


def _fill(bench: CheckContext, buffer: Buffer) -> Words:
    """Random words in it, for the device to see; a copy of them."""
    pattern = np.frombuffer(bench.rng.bytes(len(buffer.array) * WORD_BYTES), np.uint64)
    buffer.array[:] = pattern
    bench.device.flush(buffer)
    return pattern


def _holds(bench: CheckContext, buffer: Buffer, pattern: Words) -> None:
    bench.device.invalidate(buffer)
    wrong = np.flatnonzero(buffer.array != pattern)
    expect(
        not len(wrong),
        f"{len(wrong)} of {len(pattern):,} words of the buffer at {buffer.device_address:#x} changed, "
        f"the first number {_first(wrong)}",
    )


def _first(wrong: NDArray[np.intp]) -> str:
    """The first of some numbers, for a message; nothing where there are none."""
    return str(wrong[0]) if len(wrong) else ""


CHECKS = (
    Check("memory: flush and invalidate", round_trip),
    Check("memory: through the accelerator and back", copied),
    Check("memory: buffers far apart", far_apart),
)
