"""Checks of the memory that host and accelerator share."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.layout import WORD_BYTES
from bitlane.contract.packing import Words
from bitlane.devices.protocol import Buffer
from bitlane.driver.job import PAGE
from bitlane.errors import DeviceError

from .bench import BlockCheck, CheckContext, expect
from .blocks import HOST_MEMORY, MODEL_TRANSFER
from .cases import LARGE_WEIGHTS, STILL, Case, most_features
from .datapath import precisions
from .report import Figures

SIZES = (WORD_BYTES, PAGE - WORD_BYTES, PAGE, PAGE + WORD_BYTES, 1 << 20)  # bytes


def round_trip(bench: CheckContext) -> Figures:
    """Write buffers of several sizes at the same time, flush and invalidate them, and compare."""
    with ExitStack() as stack:
        buffers = [_allocate(bench, stack, size) for size in SIZES]
        spans = sorted((buffer.device_address, size) for buffer, size in zip(buffers, SIZES, strict=True))
        for (address, size), (following, _) in pairwise(spans):
            expect(address + size <= following, f"two buffers share the memory at {following:#x}")
        patterns = [_fill(bench, buffer) for buffer in buffers]
        for buffer, pattern in zip(buffers, patterns, strict=True):
            _compare(bench, buffer, pattern)
    return {"buffers": len(SIZES), "bytes": sum(SIZES)}


def copied(bench: CheckContext) -> Figures:
    """Load the largest models that fit and store them again. Steps of 0 leave them as they are."""
    precision = min(precisions(bench.config), key=lambda each: each.bits)
    job, _ = Case(
        precision,
        features=most_features(bench.config, precision),
        rows=1,
        epochs=2,
        weight_bits=LARGE_WEIGHTS,
        settings=STILL,
    ).make(bench)
    result = bench.driver.run(job)
    assert result.snapshots is not None
    for epoch, master in enumerate(result.snapshots):
        wrong = np.argwhere(master != job.state.master)
        if len(wrong):
            output, feature = wrong[0].tolist()
            got, expected = master[output, feature], job.state.master[output, feature]
            expect(
                False,
                f"weight of output {output}, feature {feature} is {got} instead of {expected} after epoch {epoch} with "
                f"steps of 0 ({len(wrong):,} of {master.size:,} differ)",
            )
    return {"weights": int(job.state.master.size), "beats": result.counters.beats}


def far_apart(bench: CheckContext) -> Figures:
    """Transfer a model at addresses beyond half of each memory. Every page of these halves keeps its contents."""
    with ExitStack() as stack:
        halves = [_half(bench, stack, port) for port in range(bench.config.ports)]
        pages = [half.array[:: PAGE // WORD_BYTES] for half in halves]
        tags = [np.arange(len(each), dtype=np.uint64) ^ bench.rng.integers(1 << 63, dtype=np.uint64) for each in pages]
        for half, each, tag in zip(halves, pages, tags, strict=True):
            each[:] = tag
            bench.device.flush(half)
        beyond = _allocate(bench, stack, PAGE)
        pattern = _fill(bench, beyond)
        copied(bench)
        _compare(bench, beyond, pattern)
        for half, each, tag in zip(halves, pages, tags, strict=True):
            bench.device.invalidate(half)
            wrong = np.flatnonzero(each != tag)
            expect(not len(wrong), f"{len(wrong)} of {len(each):,} pages changed, the first is page {_first(wrong)}")
    count = sum(map(len, pages))
    return {"pages": count, "MiB": count * PAGE / (1 << 20)}


def _half(bench: CheckContext, stack: ExitStack, port: int) -> Buffer:
    """A buffer of half of the memory of a port, or of the largest power of two of it that can be allocated."""
    size = bench.device.capacity_bytes // bench.config.ports // 2
    while True:
        try:
            return _allocate(bench, stack, size, port)
        except DeviceError:
            if size <= PAGE:
                raise
            size //= 2


def _allocate(bench: CheckContext, stack: ExitStack, size: int, port: int = 0) -> Buffer:
    buffer = bench.device.allocate(size, port)
    stack.callback(buffer.free)
    address, words = buffer.device_address, len(buffer.array)
    expect(address % PAGE == 0, f"a buffer lies at {address:#x}, which is not a multiple of {PAGE}")
    expect(words == -(-size // WORD_BYTES), f"a buffer of {size} bytes has {words} words")
    return buffer


def _fill(bench: CheckContext, buffer: Buffer) -> Words:
    """Write random words to a buffer, flush it, and return a copy of them."""
    pattern = np.frombuffer(bench.rng.bytes(len(buffer.array) * WORD_BYTES), np.uint64)
    buffer.array[:] = pattern
    bench.device.flush(buffer)
    return pattern


def _compare(bench: CheckContext, buffer: Buffer, pattern: Words) -> None:
    """Raise CheckFailed if a word of the buffer on the device has changed."""
    bench.device.invalidate(buffer)
    wrong = np.flatnonzero(buffer.array != pattern)
    expect(
        not len(wrong),
        f"{len(wrong)} of {len(pattern):,} words of the buffer at {buffer.device_address:#x} changed, the first is "
        f"word {_first(wrong)}",
    )


def _first(wrong: NDArray[np.intp]) -> str:
    """Return the first of these numbers, or ""."""
    return str(wrong[0]) if len(wrong) else ""


CHECKS = (
    BlockCheck(HOST_MEMORY, "flush and invalidate", round_trip),
    BlockCheck(MODEL_TRANSFER, "load and store", copied),
    BlockCheck(MODEL_TRANSFER, "distant addresses", far_apart),
)
