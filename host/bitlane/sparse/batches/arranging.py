"""The order of rows in an epoch: files, groups and batches, each a function of the seed, the epoch and its number."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.pipeline import close
from bitlane.support.jit import machine_code

Features = tuple[NDArray[np.uint64], NDArray[np.uint16], NDArray[np.float32], NDArray[np.int64]]

_FILES, _ROWS = 0, 1  # streams of random numbers
_TOUCHED = 64  # rows
_ONE = np.uint64(1)


def file_order(count: int, options: ReadOptions, epoch: int) -> NDArray[np.int64]:
    """Return the order in which an epoch reads its files: int64 [count]."""
    order = np.arange(count)
    return np.random.default_rng((options.seed, epoch, _FILES)).permutation(order) if options.shuffle_files else order


def split_start(start: int, group_rows: int) -> tuple[int, int]:
    """Return the first row of the group that has row `start`, and how far `start` is within it."""
    if start < 0:
        raise DataError(f"start={start} must be 0 or more")
    inner = start % group_rows if group_rows else 0
    return start - inner, inner


def arranged(
    batches: Iterator[Batch], options: ReadOptions, epoch: int, start: tuple[int, int]
) -> Generator[Batch, None, None]:
    """Yield batches of any size as batches of equal size: shuffled within groups, cut as in an uninterrupted epoch.

    Parameters
    ----------
    batches : iterator of Batch
        The rows from ``start[0]`` on.
    options : ReadOptions
    epoch : int
    start : tuple of int
        First row of these batches, and rows of the first group that are skipped.
    """
    first, inner = start
    if options.shuffle_rows:
        batches = _shuffled(batches, options, epoch, (first // options.shuffle_rows, inner))
    room = options.batch_rows - (first + inner) % options.batch_rows
    try:
        yield from _cut(batches, options.batch_rows, room)
    finally:
        close(batches)


def _shuffled(
    batches: Iterator[Batch], options: ReadOptions, epoch: int, start: tuple[int, int]
) -> Generator[Batch, None, None]:
    number, inner = start
    try:
        for group in _cut(batches, options.shuffle_rows, options.shuffle_rows):
            order = np.random.default_rng((options.seed, epoch, _ROWS, number)).permutation(group.rows)[inner:]
            for first in range(0, len(order), options.batch_rows):
                yield take(group, order[first : first + options.batch_rows])
            number, inner = number + 1, 0
    finally:
        close(batches)


def _cut(batches: Iterator[Batch], rows: int, room: int) -> Generator[Batch, None, None]:
    """Yield batches of any size as batches of `rows` rows; the first has `room` rows, the last what is left."""
    held: list[Batch] = []
    for batch in batches:
        at = 0
        while batch.rows - at >= room:
            held.append(batch.slice(at, at + room))
            yield Batch.concatenate(held)
            held, at, room = [], at + room, rows
        if at < batch.rows:
            held.append(batch.slice(at, batch.rows))
            room -= batch.rows - at
    if held:
        yield Batch.concatenate(held)


def take(batch: Batch, order: NDArray[np.int64]) -> Batch:
    """Return the rows of the indices `order`, as `Batch.take`, without the interpreter's lock."""
    offsets = np.zeros(len(order) + 1, np.int64)
    np.cumsum((batch.offsets[1:] - batch.offsets[:-1])[order], out=offsets[1:])
    nnz = int(offsets[-1])
    keys, fields, values = np.empty(nnz, np.uint64), np.empty(nnz, np.uint16), np.empty(nnz, np.float32)
    _gather()((batch.keys, batch.fields, batch.values, batch.offsets), order, (keys, fields, values, offsets))
    times = None if batch.times is None else batch.times[order]
    weights = None if batch.weights is None else batch.weights[order]
    return Batch(keys, fields, values, offsets, batch.labels[order], times, weights)


def _gather_rows(source: Features, order: NDArray[np.int64], target: Features) -> int:
    """Copy rows; groups of them are touched first, so that the memory fetches their lines side by side."""
    keys, fields, values, offsets = source
    taken_keys, taken_fields, taken_values, ends = target
    touched = 0
    last = len(keys) - 1
    for group in range(0, len(order), _TOUCHED):
        stop = min(group + _TOUCHED, len(order))
        for row in range(group, stop):
            start = min(offsets[order[row]], last)
            touched += int(keys[start] & _ONE) + int(fields[start]) + int(values[start] > 0)
        for row in range(group, stop):
            start, at = offsets[order[row]], ends[row]
            for feature in range(ends[row + 1] - at):
                taken_keys[at + feature] = keys[start + feature]
                taken_fields[at + feature] = fields[start + feature]
                taken_values[at + feature] = values[start + feature]
    return touched


@cache
def _gather() -> Any:
    return machine_code(_gather_rows, nogil=True, error_model="numpy")
