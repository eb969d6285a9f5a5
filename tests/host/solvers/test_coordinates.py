"""Coordinate descent: optimal by its subgradients, and with the same bits in C and numpy."""

import numpy as np
import pytest

from bitlane.encoded.coded_rows import Floats
from bitlane.solvers import coordinates
from bitlane.solvers.coordinates import State, c_sweep, least_model, numpy_sweep


def problem(random: np.random.Generator, n: int) -> tuple[Floats, Floats, Floats, Floats]:
    """A Hessian, a slope, a point with zeros, and an L1 penalty without some parameters."""
    rows = random.normal(size=(2 * n + 2, n)) @ (np.eye(n) + random.normal(size=(n, n)) / n)
    point = random.normal(size=n) * random.integers(0, 2, n)
    lasso = 10.0 ** random.uniform(-2, 1, n) * random.integers(0, 4, n)
    return rows.T @ rows / n + 0.1 * np.eye(n), 3 * random.normal(size=n), point, lasso


@pytest.mark.parametrize("compiled", [True, False])
def test_no_subgradient_is_left(seed: int, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if compiled and c_sweep() is None:
        pytest.skip("no C compiler")
    if not compiled:
        monkeypatch.setattr(coordinates, "c_sweep", lambda: None)
    random = np.random.default_rng(seed)
    for n in (1, 5, 40):
        hessian, slope, point, lasso = problem(random, n)
        step = least_model(hessian, slope, point, lasso)
        gradient, found = slope + hessian @ step, point + step
        at_zero = found == 0
        assert (np.abs(gradient[at_zero]) <= lasso[at_zero] + 1e-3).all()
        left = (gradient + lasso * np.sign(found))[~at_zero]
        np.testing.assert_allclose(left, 0, rtol=0, atol=1e-3)


def test_sweeps_have_the_same_bits(seed: int) -> None:
    compiled = c_sweep()
    if compiled is None:
        pytest.skip("no C compiler")
    random = np.random.default_rng(seed)
    for n in (1, 3, 17, 70):
        hessian, slope, point, lasso = problem(random, n)
        states = [State(hessian, point, lasso, np.zeros(n), slope.copy()) for _ in range(2)]
        for _ in range(4):
            chosen = np.flatnonzero(random.random(n) < 0.7)
            assert compiled(states[0], chosen) == numpy_sweep(states[1], chosen)
        for ours, theirs in zip(*states, strict=True):
            assert ours.tobytes() == theirs.tobytes()
