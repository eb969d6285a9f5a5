"""Pieces end at the same rows, whatever the batches of a source."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.sparse_training import RowsSource, some_rows

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.cuts import cut


@pytest.mark.parametrize("size", [1, 7, 30, 60, 95, 1000])
@pytest.mark.parametrize("start", [0, 30, 40, 211])
def test_pieces_end_at_multiples_and_at_the_end(seed: int, size: int, start: int) -> None:
    rows = some_rows(seed, 211)
    source = RowsSource(rows, size)
    found = list(cut(source.batches(0, start), (30, 40), start))
    ends = [end for end in range(1, 212) if end > start and (end % 30 == 0 or end % 40 == 0 or end == 211)]
    assert (start + np.cumsum([piece.rows for piece in found])).tolist() == ends
    if start < 211:
        whole, expected = Batch.concatenate(found), source.epoch_rows(0).slice(start, 211)
        for name in ("keys", "fields", "values", "offsets", "labels"):
            np.testing.assert_array_equal(getattr(whole, name), getattr(expected, name))


def test_a_batch_that_fits_is_passed_on_as_it_is(seed: int) -> None:
    batch = some_rows(seed, 50)
    (found,) = cut(iter([batch]), (50,))
    assert found is batch


def test_batches_without_rows_are_passed_over(seed: int) -> None:
    batch, empty = some_rows(seed, 10), some_rows(seed, 0)
    found = list(cut(iter([empty, batch, empty, batch, empty]), (8,)))
    assert [piece.rows for piece in found] == [8, 8, 4]
    assert list(cut(iter([empty]), (8,))) == []
