"""Test rows, chosen by a hash of their numbers: a training leaves them out, so that they can measure it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.batches.batch import Batch

if TYPE_CHECKING:
    from bitlane.sparse.batches.pieces import Piece


STEP = np.uint64(0x9E3779B97F4A7C15)  # between the words of SplitMix64


def is_held_out(rows: NDArray[np.int64], fraction: float) -> NDArray[np.bool_]:
    """Return which rows are held out, bool [n]: the same in every run, on every machine.

    A row is held out if the finalizer of SplitMix64 (Steele, Lea, Flood 2014) takes its number below ``fraction``
    times 2**64.

    Parameters
    ----------
    rows : int64 [n]
        Numbers of rows, from 0.
    fraction : float
        Above 0 and below 1.
    """
    held_out: NDArray[np.bool_] = finalized(rows.astype(np.uint64) + STEP) < np.uint64(fraction * 2.0**64)
    return held_out


def finalized(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 bits that all depend on all bits of a word, uint64 [n]: the finalizer of SplitMix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = words ^ (words >> np.uint64(31))
    return mixed


def part_of(pieces: Iterator[Piece], fraction: float, *, is_test: bool) -> Iterator[Piece]:
    """Yield the pieces of all rows, in their order, with the rows that are held out, or all others.

    Parameters
    ----------
    pieces : iterator of Piece
        From the first row on, each with the number of its rows.
    fraction : float
        As of `is_held_out`.
    is_test : bool
        Whether to take the rows that are held out.
    """
    first = 0
    for piece in pieces:
        kept = np.flatnonzero(is_held_out(np.arange(first, first + piece.rows), fraction) == is_test)
        first += piece.rows
        if len(kept):
            yield replace(piece, decode=_taking(piece.decode, kept), rows=len(kept))


def _taking(decode: Callable[[], Batch], kept: NDArray[np.int64]) -> Callable[[], Batch]:
    return lambda: decode().take(kept)
