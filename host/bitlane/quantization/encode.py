"""Encoding of a table in machine code: rows in pieces, on several threads, written to where they lie in a region."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.draws import feature_offsets
from bitlane.contract.prng import Words as RandomWords
from bitlane.support.processors import processors

from .c_kernels import VALUE_TYPES, Kernels, RowsInRegion
from .positions import PositionMap
from .scaling import Matrix

PIECE = 1 << 18  # values of a piece: enough that a thread works for some 0.3 ms


def encode_draws(
    kernels: Kernels,
    X: Matrix,
    mapped: PositionMap,
    of_rows: RandomWords,
    masks: RandomWords,
    target: RowsInRegion,
    threads: int | None = None,
) -> None:
    """Write the draw words of rows X [rows, n] for several draw sets of a group, in one pass over the rows.

    Parameters
    ----------
    kernels : Kernels
    X : array of integers or floats [rows, n]
        uint8, int16, float32 and float64 in C order are read where they are; others are converted in pieces.
    mapped : PositionMap
    of_rows : uint32 array [rows]
        From `bitlane.contract.draws.row_words`.
    masks : uint32 array [sets]
        `bitlane.contract.draws.DrawSet.mask` of each set.
    target : RowsInRegion
    threads : int, optional
        Threads that work on pieces; as many as the machine has by default. The bits do not depend on it.
    """
    _each_piece(kernels.encode_draws, X, mapped, of_rows, masks, target, threads)


def encode_base(
    kernels: Kernels,
    X: Matrix,
    mapped: PositionMap,
    of_rows: RandomWords | None,
    target: RowsInRegion,
    threads: int | None = None,
) -> None:
    """Write the base words of rows X [rows, n] to a region, without labels. Only naive sampling has `of_rows`."""
    none = np.empty(0, np.uint32)
    _each_piece(kernels.encode_base, X, mapped, none if of_rows is None else of_rows, none, target, threads)


def _each_piece(
    kernel: Callable[..., Any],
    X: Matrix,
    mapped: PositionMap,
    of_rows: RandomWords,
    masks: RandomWords,
    target: RowsInRegion,
    threads: int | None,
) -> None:
    runs, offsets = feature_runs(mapped.columns), feature_offsets(len(mapped.columns))

    def encode(start: int) -> None:
        rows = slice(start, start + step)
        some = replace(target, row_offsets=target.row_offsets[rows])
        kernel(_native(X[rows]), mapped, runs, of_rows[rows], masks, offsets, some)

    step = max(1, PIECE // X.shape[1])
    starts = range(0, len(X), step)
    workers = min(threads or processors(), len(starts))
    if workers == 1:
        for start in starts:
            encode(start)
        return
    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(encode, starts):
            pass


def feature_runs(columns: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return runs of consecutive columns, int [runs, 3]: the first feature, its column, the number of features."""
    firsts = np.append(0, np.flatnonzero(np.diff(columns) != 1) + 1)
    return np.column_stack([firsts, columns[firsts], np.diff(np.append(firsts, len(columns)))]).astype(np.intp)


def _native(rows: Matrix) -> Matrix:
    """Return rows as the kernels read them."""
    dtype = rows.dtype if rows.dtype in VALUE_TYPES else np.dtype(np.float64)
    return np.ascontiguousarray(rows, dtype)
