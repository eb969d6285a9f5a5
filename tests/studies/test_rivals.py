"""The study of what a user would otherwise run: its programs, its losses and its table."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane_studies import rivals


@pytest.fixture
def table(seed: int) -> tuple[rivals.Floats, rivals.Floats]:
    """Rows with columns of other means and scales, and one that is constant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(3.0, [1, 20, 0.1, 0], (400, 4)).astype(np.float32)
    return X, (X @ [1, -0.1, 5, 0] + rng.normal(0, 0.1, 400)).astype(np.float32)


def test_the_gram_matrix_gives_least_squares(table: tuple[rivals.Floats, rivals.Floats]) -> None:
    X, y = table
    A = np.column_stack([X, np.ones(len(X))]).astype(np.float64)
    expected = A @ np.linalg.lstsq(A, y.astype(np.float64), rcond=None)[0]
    np.testing.assert_allclose(rivals.gram(X, y)(X), expected, atol=1e-3)


def test_losses_are_those_of_the_textbook() -> None:
    y = np.array([1, -1, -1], np.float32)
    scores = np.array([2.0, -0.5, 3.0])
    assert rivals.squared_error(scores, y) == pytest.approx((1 + 0.25 + 16) / 3)
    expected = np.mean([np.log(1 + np.exp(-margin)) for margin in (2.0, 0.5, -3.0)])
    assert rivals.logistic(scores, y) == pytest.approx(expected)


@pytest.mark.parametrize("title", ["squares", "log loss"])
def test_all_programs_run_and_learn(table: tuple[rivals.Floats, rivals.Floats], title: str) -> None:
    X, y = table
    programs, loss, constant = rivals.squares(), rivals.squared_error, float(np.var(y))
    if title == "log loss":
        y = np.where(y > np.median(y), 1, -1).astype(np.float32)
        programs, loss, constant = rivals.log_loss(), rivals.logistic, float(np.log(2))
    found = rivals.measure(X, y, programs, loss, repeats=1)
    assert list(found) == list(programs) and len(found) == 4
    for name, timing in found.items():
        assert timing.first > 0 and timing.later > 0, name
        assert timing.loss < 0.9 * constant, (name, timing.loss, constant)
