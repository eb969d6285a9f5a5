"""The losses against their textbook formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.helpers.sparse_textbook import loss_of

from bitlane.errors import DataError
from bitlane.sparse.models.losses import LOSSES, check_labels, mean_loss, predictions, slope


@pytest.mark.parametrize("loss", LOSSES)
def test_the_slope_is_the_derivative(loss: str) -> None:
    for score in (-5.0, -0.5, 0.0, 0.3, 4.0):
        for label in (0.0, 1.0):
            h = 1e-5
            expected = (loss_of(loss, score + h, label) - loss_of(loss, score - h, label)) / (2 * h)
            assert slope(LOSSES.index(loss), score, label) == pytest.approx(expected, abs=1e-9)


def test_large_scores_neither_overflow_nor_vanish() -> None:
    assert [slope(0, score, 1.0) for score in (-1000.0, 1000.0)] == [-1.0, 0.0]
    scores = np.array([-200, -90, 0, 90, 200], np.float32)
    found = predictions("log_loss", scores)
    assert found.dtype == np.float32 and found[2] == 0.5 and found[0] == 0 and found[-1] == 1
    assert found[1] == pytest.approx(math.exp(-90), rel=1e-3)
    assert mean_loss("log_loss", [1000.0, -1000.0], [0, 1]) == 1000


@pytest.mark.parametrize("loss", LOSSES)
def test_the_mean_loss_is_the_mean(loss: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, labels = rng.normal(size=50) * 4, rng.integers(0, 2, 50)
    expected = np.mean([loss_of(loss, z, y) for z, y in zip(scores.tolist(), labels.tolist(), strict=True)])
    assert mean_loss(loss, scores, labels) == pytest.approx(expected, rel=1e-12)


def test_squared_error_predicts_the_score() -> None:
    scores = np.array([-2.5, 7], np.float32)
    assert predictions("squared_error", scores) is scores


@pytest.mark.parametrize("bad", [0.5, -1.0, 2.0, float("nan")])
def test_a_label_that_is_neither_0_nor_1_is_named_with_its_row(bad: float) -> None:
    with pytest.raises(DataError, match=rf"label of row 2 must be 0 or 1; got {bad}"):
        check_labels("log_loss", np.array([0, 1, bad, 5], np.float32))
    if not math.isnan(bad):
        check_labels("squared_error", np.array([bad], np.float32))


def test_a_label_that_is_no_number_is_named_with_its_row() -> None:
    with pytest.raises(DataError, match="label of row 1 must be a finite number; got inf"):
        check_labels("squared_error", np.array([0, np.inf], np.float32))
