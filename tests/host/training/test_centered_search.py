"""The search: steps are joined, a worse point is left, and the end is told by the estimate."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.training.centered_search import CenteredSearch


def minimised(search, value, slope, most=60):
    """Run a search on a function; return its values."""
    seen = []
    while len(seen) < most and not search.finished:
        seen.append(value(search.point))
        search.take(search.point, seen[-1], slope(search.point))
    return seen


def test_a_square_ends_within_the_tolerance(seed: int) -> None:
    """Steps by half of the Hessian's diagonal; the estimate is exact."""
    rng = np.random.default_rng(seed)
    for _ in range(60):
        n = int(rng.integers(1, 6))
        turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
        hessian, best = turn @ np.diag(rng.uniform(0.3, 3, n)) @ turn.T, rng.normal(size=n)

        def value(x, hessian=hessian, best=best):
            return float((x - best) @ hessian @ (x - best) / 2 + 1)

        def slope(x, hessian=hessian, best=best):
            return hessian @ (x - best)

        def step(x, gradient, hessian=hessian):
            return -gradient / 2 / np.diag(hessian), float(gradient @ np.linalg.solve(hessian, gradient) / 2)

        search = CenteredSearch(step, np.zeros(n), 1e-4)
        seen = minimised(search, value, slope)
        assert search.converged and search.objective == min(seen) <= 1 + 1e-4
        assert value(search.best) == search.objective


def test_a_worse_point_is_left_for_shorter_steps() -> None:
    """Steps that are eight times too long: the third halving is the first that helps, from the same point."""
    search = CenteredSearch(lambda x, gradient: (-15.9 * x, 1.0), np.array([1.0]), 1e-9)
    tried = []
    for _ in range(5):
        tried.append(float(search.point[0]))
        search.take(search.point, float(search.point[0] ** 2), 2 * search.point)
    assert tried[0] == 1.0 and np.allclose(tried[1:5], [1 - 15.9 / k for k in (1, 2, 4, 8)])
    assert search.best[0] == pytest.approx(1 - 15.9 / 8)


def test_a_mixed_point_is_left_for_its_plain_step() -> None:
    steps = iter([1.0, 0.9, 0.3])
    search = CenteredSearch(lambda x, gradient: (np.array([next(steps)]), 1.0), np.zeros(1), 1e-9)
    assert search.take(search.point, 3.0, np.zeros(1)) and search.point[0] == 1.0
    assert search.take(search.point, 2.0, np.zeros(1)) and search.point[0] == pytest.approx(10.0)  # by secant
    assert not search.take(search.point, 5.0, np.zeros(1)) and search.point[0] == pytest.approx(1.9)
    assert not search.take(search.point, 5.0, np.zeros(1)) and search.point[0] == pytest.approx(1.45)
    assert search.best[0] == 1.0 and search.objective == 2.0 and not search.finished


def test_a_search_that_gains_nothing_ends() -> None:
    search = CenteredSearch(lambda x, gradient: (np.ones(1), 1.0), np.zeros(1), 1e-9)
    seen = minimised(search, lambda x: float(abs(x[0]) + 1), np.sign)
    assert search.finished and not search.converged and len(seen) < 12 and search.best[0] == 0.0


def test_a_search_among_equal_values_ends() -> None:
    """Rounding of a device leaves a gradient where nothing is to be gained."""
    rng = np.random.default_rng(0)
    search = CenteredSearch(lambda x, gradient: (0.1 * rng.normal(size=2), 1.0), np.zeros(2), 1e-9)
    seen = minimised(search, lambda x: 1.0, lambda x: 1e-6 * np.ones(2))
    assert search.finished and not search.converged and len(seen) == 9
