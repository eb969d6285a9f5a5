"""Anderson acceleration on linear iterations, where theory says what it finds."""

from __future__ import annotations

import numpy as np

from bitlane.training.anderson import Anderson


def test_a_linear_iteration_ends_at_its_fixed_point(seed: int) -> None:
    """With room for all points it is GMRES: n steps for n dimensions, though the plain iteration diverges."""
    rng = np.random.default_rng(seed)
    for n in rng.integers(1, 7, 60):
        matrix = np.diag(rng.uniform(0.5, 3.0, n))  # x <- x + (b - A x) diverges along entries above 2
        turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
        matrix = turn @ matrix @ turn.T
        b, x = rng.normal(size=n), rng.normal(size=n)
        anderson = Anderson(memory=8)
        for _ in range(n + 1):
            x = anderson.next_point(x, b - matrix @ x)
        assert np.allclose(matrix @ x, b, atol=1e-5)


def test_the_first_point_and_one_after_forgetting_are_plain() -> None:
    anderson = Anderson()
    x, d = np.array([1.0, 2.0]), np.array([0.5, -1.0])
    assert np.array_equal(anderson.next_point(x, d), x + d) and not anderson.mixed
    assert not np.array_equal(anderson.next_point(x + 1, d / 2), x + 1 + d / 2) and anderson.mixed
    anderson.forget()
    assert not anderson.mixed
    shares = np.array([0.0, 1.0])  # of one difference of steps, the last step is half: it is all taken off
    expected = anderson.next_point(x + 2, d / 4)
    assert anderson.mixed and shares.sum() == 1
    assert np.allclose(expected, x + 2 + d / 4 + (x + 2 + d / 4 - (x + 1 + d / 2)), atol=1e-12)


def test_old_points_are_forgotten(seed: int) -> None:
    """A memory of two is the secant method in one dimension."""
    rng = np.random.default_rng(seed)
    anderson, points = Anderson(memory=2), rng.normal(size=5)
    steps = rng.normal(size=5)
    for x, d in zip(points, steps, strict=True):
        found = anderson.next_point(np.array([x]), np.array([d]))
    slope = (steps[-1] - steps[-2]) / (points[-1] - points[-2])
    assert np.allclose(found, points[-1] - steps[-1] / slope)
