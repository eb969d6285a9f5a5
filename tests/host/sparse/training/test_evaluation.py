"""Evaluation measures all rows and changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.sparse_training import RowsSource, TinyModel, some_rows

from bitlane.errors import DataError
from bitlane.sparse.training.evaluation import evaluate
from bitlane.sparse.training.windows import measure


def test_all_rows_are_measured_and_nothing_is_learned(seed: int) -> None:
    rows, model, counts = some_rows(seed, 300), TinyModel(), []
    model.learn(some_rows(seed + 1, 200))
    weights = model.weights.copy()
    source = RowsSource(rows, 70)
    found = evaluate(model, source.batches(0), counts.append)
    order = source.epoch_rows(0)
    assert found == measure(model.scores(order), order.labels, "log_loss")
    np.testing.assert_array_equal(model.weights, weights)
    assert counts == [70, 70, 70, 70, 20]
    assert source.open == 0


def test_no_rows_are_an_error(seed: int) -> None:
    with pytest.raises(DataError, match="no rows to evaluate"):
        evaluate(TinyModel(), RowsSource(some_rows(seed, 0)).batches(0))
