"""Quality of scores, against ranks by scipy, scikit-learn, and a sum over all pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.training.windows import Quality, Scores, Window, auc, fields, measure, pooled

stats = pytest.importorskip("scipy.stats")
metrics = pytest.importorskip("sklearn.metrics")


def some_scores(seed: int, rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Scores with many ties, and labels of both classes."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(rows) < 0.3).astype(np.float32)
    labels[:2] = 0.0, 1.0
    return (rng.normal(size=rows) + labels).round(1).astype(np.float32), labels


@pytest.mark.parametrize("swap", [False, True])
def test_auc_counts_all_pairs(seed: int, swap: bool) -> None:
    scores, labels = some_scores(seed, 60)
    if swap:  # more positive rows than negative ones
        labels = 1 - labels
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[labels > 0] for b in scores[labels == 0]]
    assert auc(scores, labels) == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)


def test_auc_is_that_of_ranks(seed: int) -> None:
    scores, labels = some_scores(seed)
    positive = labels > 0
    ones, zeros = int(positive.sum()), int((~positive).sum())
    by_ranks = (stats.rankdata(scores)[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros)
    assert auc(scores, labels) == pytest.approx(by_ranks, abs=1e-12)


def test_one_class_has_no_auc() -> None:
    for label in (0.0, 1.0):
        found = measure(np.zeros(3, np.float32), np.full(3, label, np.float32), "log_loss")
        assert found.auc is None
        assert found.log_loss == pytest.approx(math.log(2))
        assert found.calibration == (0.5 if label else None)


def test_no_rows_have_no_quality() -> None:
    assert measure(np.zeros(0, np.float32), np.zeros(0, np.float32), "log_loss") == Quality(0)
    assert Quality(0).calibration is None


def test_log_loss_and_calibration_are_those_of_scikit_learn(seed: int) -> None:
    scores, labels = some_scores(seed)
    found = measure(scores, labels, "log_loss")
    chances = 1 / (1 + np.exp(-scores.astype(np.float64)))
    assert found.log_loss == pytest.approx(metrics.log_loss(labels, chances), rel=1e-9)
    assert found.calibration == pytest.approx(chances.mean() / labels.astype(np.float64).mean(), rel=1e-9)
    assert (found.rows, found.rmse) == (400, None)


def test_large_scores_do_not_overflow() -> None:
    with np.errstate(all="raise", under="ignore"):
        found = measure(np.array([1e30, -1e30], np.float32), np.array([0, 1], np.float32), "log_loss")
        assert found.log_loss == pytest.approx(1e30)
        assert found.mean_prediction == 0.5


def test_squared_error_has_no_auc(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, labels = rng.normal(size=(2, 50)).astype(np.float32)
    found = measure(scores, labels, "squared_error")
    assert found.rmse == pytest.approx(math.sqrt(metrics.mean_squared_error(labels, scores)), rel=1e-5)
    assert (found.auc, found.log_loss) == (None, None)


def test_parts_are_one_window(seed: int) -> None:
    scores, labels = some_scores(seed)
    parts = Scores("log_loss")
    for start in range(0, 400, 90):
        parts.add(scores[start : start + 90], labels[start : start + 90])
    assert parts.rows == 400
    assert parts.quality() == measure(scores, labels, "log_loss")
    assert parts.quality() == measure(scores, labels, "log_loss")  # asking changes nothing
    parts.clear()
    assert parts.quality() == Quality(0)


def test_parts_are_copies() -> None:
    parts, scores = Scores("log_loss"), np.ones(2, np.float32)
    parts.add(scores, np.array([0, 1], np.float32))
    scores[:] = 7.0
    assert parts.arrays()[0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_an_error(bad: float) -> None:
    with pytest.raises(DataError, match=r"score became .*learning rate"):
        Scores("log_loss").add(np.array([0.0, bad], np.float32), np.zeros(2, np.float32))


def test_pooled_windows_have_the_means_of_their_rows(seed: int) -> None:
    scores, labels = some_scores(seed)
    parts = [measure(scores[a:b], labels[a:b], "log_loss") for a, b in ((0, 100), (100, 400))]
    together, whole = pooled(parts), measure(scores, labels, "log_loss")
    for name in ("rows", "log_loss", "mean_label", "mean_prediction", "calibration"):
        assert getattr(together, name) == pytest.approx(getattr(whole, name), rel=1e-9)
    assert together.auc == pytest.approx(0.25 * parts[0].auc + 0.75 * parts[1].auc)
    errors = [Quality(1, rmse=3.0), Quality(3, rmse=1.0)]
    assert pooled(errors).rmse == pytest.approx(math.sqrt((9 + 3) / 4))
    assert pooled([]) == Quality(0)


def test_a_line_of_the_log_is_flat() -> None:
    window = Window(0, 20, Quality(10, 0.75, 0.5, None, 0.5, 0.25), 1.5, 100.0, 0.125, 3, 48, 1.25)
    line = fields(window)
    assert line["calibration"] == 0.5
    assert (line["rows"], line["auc"], line["rows_done"], line["table_rows"]) == (10, 0.75, 20, 3)
    assert all(value is None or isinstance(value, (int, float)) for value in line.values())


def test_the_log_loss_of_a_constant(seed: int) -> None:
    labels = (np.random.default_rng(seed).random(500) < 0.03).astype(np.float32)
    rate = labels.mean(dtype=np.float64)
    scores = np.full(500, np.log(rate / (1 - rate)) if rate else -20.0, np.float32)
    found = measure(scores, labels, "log_loss")
    assert found.constant_log_loss == pytest.approx(found.log_loss, rel=1e-4, abs=1e-7)
    assert measure(scores, labels, "squared_error").constant_log_loss is None
    assert measure(scores[:0], labels[:0], "log_loss").constant_log_loss is None
