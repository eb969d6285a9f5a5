"""A share of the rows that a training does not see, chosen by a hash of the row's number."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.arranging import arranged, split_start
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.left_out import is_held_out
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.pipeline import ahead
from bitlane.sparse.batches.source import Source

_SCAN = 1 << 20  # row numbers that are hashed at a time
_AHEAD = 4


class RowSplit:
    """The rows of a source that are held out, or all others, as a source of its own.

    Parameters
    ----------
    source : Source
        Its order is the same in every epoch: it does not shuffle.
    fraction : float
        Of the rows, held out.
    is_test : bool
        Whether these are the rows that are held out.
    options : ReadOptions, optional
        Its `batch_rows`, `shuffle_rows` and `seed` say how the rows of this split are arranged.

    Raises
    ------
    DataError
        The fraction is not between 0 and 1.
    """

    def __init__(self, source: Source, fraction: float, *, is_test: bool, options: ReadOptions | None = None):
        if not 0.0 < fraction < 1.0:
            raise DataError(f"a test fraction of {fraction:g} is not between 0 and 1, for example 0.1")
        self.source, self.fraction, self.is_test = source, fraction, is_test
        self.options = options or ReadOptions()

    def batches(self, epoch: int, start: int = 0) -> Generator[Batch, None, None]:
        """Yield the batches of an epoch, without its first `start` rows."""
        first, inner = split_start(start, self.options.shuffle_rows)
        return ahead(arranged(self._rows(epoch, first), self.options, epoch, (first, inner)), _AHEAD)

    def _rows(self, epoch: int, start: int) -> Iterator[Batch]:
        """Yield this split's rows, without its first `start`."""
        row = self._row_after(start)
        with closing(self.source.batches(epoch, row)) as batches:
            for batch in batches:
                mine = self._mine(row, batch.rows)
                row += batch.rows
                if len(mine):
                    yield batch.take(mine)

    def _mine(self, first: int, rows: int) -> NDArray[np.int64]:
        """Indices of this split's rows among `rows` rows from the row `first` on."""
        numbers = np.arange(first, first + rows)
        return np.flatnonzero(is_held_out(numbers, self.fraction) == self.is_test)

    def _row_after(self, start: int) -> int:
        """Return the number of the row that has `start` rows of this split before it."""
        row = 0
        while start > 0:
            mine = self._mine(row, _SCAN)
            if start < len(mine):
                return row + int(mine[start])
            start, row = start - len(mine), row + _SCAN
        return row
