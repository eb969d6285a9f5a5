"""Rows that a training does not learn: those of weight 0, and a random share of those with label 0."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.left_out import STEP, finalized

if TYPE_CHECKING:
    from bitlane.sparse.batches.pieces import Piece

_STREAM = 0x6E656761746976  # so that the seed gives other numbers here than elsewhere


class Thinning:
    """Leaves out rows of weight 0, and keeps each row of label 0 with a probability; those that stay weigh more.

    Whether a row stays depends on its number and the seed alone: not on threads, shares, pieces, epochs or the order in
    which rows are learned. A row with label 0 that stays has its weight times the inverse of the probability, so that
    sums over rows, such as losses and gradients, are right on average (Horvitz and Thompson, 1952): predictions are
    probabilities among all rows.

    Parameters
    ----------
    negatives : float, optional
        Probability with which a row of label 0 stays, above 0 and below 1. None: all stay.
    seed : int, default=0

    Attributes
    ----------
    negatives : float or None
    """

    def __init__(self, negatives: float | None = None, seed: int = 0):
        self.negatives = negatives
        self._seed = seed ^ _STREAM
        self._counts: dict[int, tuple[int, int]] = {}  # by a piece's first row: a piece may be decoded again
        self._counting = threading.Lock()

    def __call__(self, batch: Batch, first: int, stream: int = 0) -> tuple[Batch, NDArray[np.int64]]:
        """Return the rows that stay, and their indices.

        Parameters
        ----------
        batch : Batch
            Consecutive rows.
        first : int
            Number of the first one.
        stream : int, default=0
            Of 64 bits, such as a digest of a file's name: where rows are numbered file by file.
        """
        stays, weights = np.ones(batch.rows, np.bool_), batch.weights
        if self.negatives is not None:
            negative = batch.labels == 0
            stays = ~negative | self._draws(first, batch.rows, stream)
            ones = np.ones(batch.rows, np.float32)
            factors = np.where(negative, np.float32(1 / self.negatives), np.float32(1))
            weights = factors * (ones if weights is None else weights)
            with self._counting:
                counted = (int(np.count_nonzero(negative & stays)), int(np.count_nonzero(negative)))
                self._counts[first ^ (stream << 64)] = counted
        if weights is not None:
            stays &= weights > 0
        index = np.flatnonzero(stays)
        whole = replace(batch, weights=weights)
        return (whole if len(index) == batch.rows else whole.take(index)), index

    def of_pieces(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Yield the pieces of all rows, in their order, without the rows that are left out; their rows are unknown."""
        first = 0
        for piece in pieces:
            yield replace(piece, decode=self._decoder(piece, first), rows=0)
            first += piece.rows

    def counts(self) -> tuple[int, int]:
        """Return how many rows of label 0 were read and stayed, and how many were read."""
        with self._counting:
            counted = list(self._counts.values())
        return sum(kept for kept, _ in counted), sum(read for _, read in counted)

    def _decoder(self, piece: Piece, first: int) -> Callable[[], Batch]:
        return lambda: self(piece(), first)[0]

    def _draws(self, first: int, rows: int, stream: int) -> NDArray[np.bool_]:
        """Return which of consecutive rows stay if they have label 0, bool [rows]."""
        assert self.negatives is not None
        base = finalized(finalized(np.array([self._seed], np.uint64)) ^ np.uint64(stream))
        numbers = base + np.arange(first, first + rows, dtype=np.uint64) * STEP
        draws: NDArray[np.bool_] = finalized(numbers) < np.uint64(self.negatives * 2.0**64)
        return draws
