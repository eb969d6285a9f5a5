"""A sample of the rows that a training has learned: enough to recognise them in another file, and how often each came.

Of the digests of all observed rows the smallest 4,096 distinct ones are kept, with how often each was seen (bottom-k
sampling: Cohen and Kaplan, 2007). Which rows these are does not depend on order or files. So of other rows those with a
digest up to the largest of the sample can be looked up in it.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.left_out import is_held_out
from bitlane.sparse.parameters.compiling import kernel
from bitlane.sparse.parameters.row_digests import Digests, Index, digests_of

SIZE = 4096  # digests
MOST_SEEN = 5  # how often a row was seen is counted up to here
FIRST = 1 << 17  # rows that are all observed; of later ones a share, in blocks
_SHARE, _BLOCK = 1 / 16, 64
_ALL = (1 << 64) - 1

Counts = NDArray[np.uint8]
Times = tuple[int, int]


@dataclass(frozen=True)
class RowsSeen:
    """What a sample takes of rows.

    Attributes
    ----------
    rows : int
    digests : uint64 [observed]
        Of those that are observed.
    times : (int, int), optional
        First and last, in seconds since 1970.
    """

    rows: int
    digests: Digests
    times: Times | None = None


def seen_rows(batch: Batch, first: int) -> RowsSeen:
    """Return what a sample takes of rows whose numbers begin with `first`."""
    times = batch.times
    return RowsSeen(
        batch.rows,
        digests_of(batch, observed(first, batch.rows)),
        (int(times.min()), int(times.max())) if times is not None and batch.rows else None,
    )


def observed(first: int, rows: int) -> Index:
    """Return which of `rows` rows are observed, int64 [n]: the first 131,072, then a sixteenth of the blocks of 64."""
    if first + rows <= FIRST:
        return np.arange(rows)
    blocks = np.arange(first // _BLOCK, (first + rows - 1) // _BLOCK + 1)
    chosen = blocks[is_held_out(blocks, _SHARE) | (blocks < FIRST // _BLOCK)]
    numbers = (chosen[:, None] * _BLOCK + np.arange(_BLOCK) - first).reshape(-1)
    return numbers[(numbers >= 0) & (numbers < rows)]


class RowSample:
    """A sample of rows. Several threads may add to it.

    Attributes
    ----------
    rows : int
        All rows, those that were not observed included.
    observed : int
    times : (int, int) or None
        Of the first and the last row by time, in seconds since 1970; None without a time column.
    """

    def __init__(self) -> None:
        self.rows = self.observed = 0
        self.times: Times | None = None
        self._lock = threading.Lock()
        self._held: int = 0
        self._begin(np.zeros(0, np.uint64), np.zeros(0, np.uint8), _ALL)

    def add(self, batch: Batch) -> None:
        """Add rows."""
        with self._lock:
            first, self.rows = self.rows, self.rows + batch.rows
        self._take(seen_rows(batch, first))

    def take(self, seen: RowsSeen) -> None:
        """Add rows of which `seen_rows` was taken elsewhere."""
        with self._lock:
            self.rows += seen.rows
        self._take(seen)

    def kept(self) -> tuple[Digests, Counts, int]:
        """Return the digests in ascending order, how often each was seen (5: at least so often), and their bound.

        All observed rows with a digest up to the bound are among them.
        """
        with self._lock:
            return self._smallest()

    def as_json(self) -> dict[str, Any]:
        """Return the sample as JSON takes it."""
        digests, counts, bound = self.kept()
        return {
            "rows": self.rows,
            "observed": self.observed,
            "times": None if self.times is None else list(self.times),
            "bound": bound,
            "digests": base64.b64encode(digests.astype("<u8").tobytes()).decode(),
            "counts": base64.b64encode(counts.tobytes()).decode(),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> RowSample:
        """Return the sample that `as_json` gave.

        Raises
        ------
        DataError
            The record is damaged.
        """
        sample = cls()
        try:
            sample.rows, sample.observed = int(record["rows"]), int(record["observed"])
            sample.times = None if record["times"] is None else (int(record["times"][0]), int(record["times"][1]))
            digests = np.frombuffer(base64.b64decode(record["digests"]), "<u8").astype(np.uint64)
            counts = np.frombuffer(base64.b64decode(record["counts"]), np.uint8)
            if len(digests) != len(counts) or len(digests) > SIZE or (counts == 0).any():
                raise ValueError(f"{len(digests)} digests, {len(counts)} counts")
            sample._begin(digests, counts, int(record["bound"]))
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise DataError(f"the sample of the rows that a training has learned is damaged: {error}") from error
        return sample

    def _take(self, seen: RowsSeen) -> None:
        with self._lock:
            self.observed += len(seen.digests)
            if seen.times is not None:
                first, last = self.times or seen.times
                self.times = min(first, seen.times[0]), max(last, seen.times[1])
            at = 0
            while True:
                done, self._held = _count(seen.digests[at:], self._bound, self._table, self._counts, self._held)
                at += done
                if at == len(seen.digests):
                    return
                self._begin(*self._smallest())

    def _smallest(self) -> tuple[Digests, Counts, int]:
        there = np.flatnonzero(self._counts)
        order = there[np.argsort(self._table[there])][:SIZE]
        digests = self._table[order]
        return digests, self._counts[order], int(digests[-1]) if self._held > SIZE else int(self._bound)

    def _begin(self, digests: Digests, counts: Counts, bound: int) -> None:
        self._table, self._counts = np.zeros(4 * SIZE, np.uint64), np.zeros(4 * SIZE, np.uint8)
        self._bound, self._held = np.uint64(bound), 0
        slots = np.empty(len(digests), np.int64)
        _place(digests, self._table, self._counts, slots)
        self._counts[slots], self._held = counts, len(digests)


@kernel()
def _count(digests: Digests, bound: np.uint64, table: Digests, counts: Counts, held: int) -> tuple[int, int]:
    """Count digests up to the bound in a table; return how many it has taken, and how many distinct ones it holds.

    It stops before a new digest would be more than half of its slots.
    """
    mask = np.uint64(len(table) - 1)
    for i in range(len(digests)):
        digest = digests[i]
        if digest > bound:
            continue
        at = digest & mask
        while counts[at] and table[at] != digest:
            at = (at + np.uint64(1)) & mask
        if counts[at]:
            counts[at] = min(counts[at] + 1, MOST_SEEN)
            continue
        if held == len(table) // 2:
            return i, held
        table[at], counts[at] = digest, 1
        held += 1
    return len(digests), held


@kernel()
def _place(digests: Digests, table: Digests, counts: Counts, slots: Index) -> None:
    """Put distinct digests into an empty table, and set their slots."""
    mask = np.uint64(len(table) - 1)
    for i in range(len(digests)):
        at = digests[i] & mask
        while counts[at]:
            at = (at + np.uint64(1)) & mask
        table[at], counts[at], slots[i] = digests[i], 1, at
