"""The inner problem of bit centering against Newton's method with numpy's solver, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitlane.training.centered_rows import CenteredRows


def loss(z: Any, y: Any, margins: bool) -> Any:
    return np.log1p(np.exp(-y * z)) if margins else (z - y) ** 2 / 2


def slope(z: Any, y: Any, margins: bool) -> Any:
    return -y / (1 + np.exp(y * z)) if margins else z - y


def curvature_of(z: Any, margins: bool) -> Any:
    chance = 1 / (1 + np.exp(-z))
    return chance * (1 - chance) if margins else np.ones(len(z))


def rows(rng: np.random.Generator, margins: bool) -> tuple[CenteredRows, Any]:
    m, n = int(rng.integers(20, 90)), int(rng.integers(1, 8))
    values = rng.uniform(-1, 1, (m, n)) * rng.choice([1.0, 0.1, 0.01], n)
    labels = rng.choice([-1.0, 1.0], m) if margins else rng.uniform(-1, 1, m)
    penalty = rng.choice([0.0, 1e-3, 0.1], n)
    return CenteredRows(values, labels, penalty, margins, float(rng.choice([0.0, 0.5, 1.0]))), rng.normal(size=n)


@pytest.mark.parametrize("margins", [False, True])
def test_a_step_minimises_what_is_written(seed: int, margins: bool) -> None:
    """mean(loss(z + v d) - r v d) + g d + (P + unseen trace(V' C V / m) / m) d**2 / 2: most of its fall."""
    rng = np.random.default_rng(seed)
    for _ in range(60):
        inner, center = rows(rng, margins)
        V, y, m = inner.values, inner.labels, len(inner.values)
        z = V @ center
        curvature = curvature_of(z, margins)
        r = slope(z, y, margins)
        g = V.T @ r / m + inner.penalty * center + 0.01 * rng.normal(size=len(center)) * np.abs(V).max(axis=0)
        damping = inner.unseen * np.trace(V.T @ (curvature[:, None] * V)) / m / m
        damped = inner.penalty + damping

        def value(d: Any, V=V, y=y, z=z, r=r, g=g, damped=damped) -> float:
            rise = loss(z + V @ d, y, margins) - loss(z, y, margins) - r * (V @ d)
            return float(rise.mean() + g @ d + (damped * d * d).sum() / 2)

        least = np.zeros(len(center))  # by Newton's method
        for _ in range(30):
            left = V.T @ (slope(z + V @ least, y, margins) - r) / m + g + damped * least
            bent = curvature_of(z + V @ least, margins)
            further, size = np.linalg.solve(V.T @ (bent[:, None] * V) / m + np.diag(damped), left), 1.0
            while value(least - size * further) > value(least) and size > 1e-6:
                size /= 2
            least = least - size * further
        d, estimate = inner.step(center, g)
        assert value(d) <= (0.25 if margins else 0.99) * value(least) < 0  # three damped steps of Newton's method
        hessian = V.T @ (curvature[:, None] * V) / m
        hessian += np.diag(inner.penalty) + np.eye(len(center)) * damping / 4 / len(center)
        assert estimate == pytest.approx(g @ np.linalg.solve(hessian, g) / 2, rel=0.01)


def test_all_rows_are_the_optimum(seed: int) -> None:
    """With the true gradient of the same rows, repeated steps end where their gradient is 0."""
    rng = np.random.default_rng(seed)
    for margins in (False, True):
        inner, point = rows(rng, margins)
        inner = CenteredRows(inner.values, inner.labels, np.maximum(inner.penalty, 0.03), margins, inner.unseen)
        for _ in range(200):
            g = inner.values.T @ slope(inner.values @ point, inner.labels, margins) / len(inner.values)
            d, estimate = inner.step(point, g + inner.penalty * point)
            point = point + d
        assert estimate < 1e-9


def test_scores_beyond_the_range_of_a_device(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(60):
        inner, center = rows(rng, True)
        center = center * 40 / np.abs(inner.values @ center).max()
        z, y, m = inner.values @ center, inner.labels, len(inner.values)
        near = np.clip(z, -8, 8)
        of_loss, of_gradient = inner.beyond_range(center)
        assert of_loss == pytest.approx((loss(z, y, True) - loss(near, y, True)).mean(), abs=1e-12)
        change = slope(z, y, True) - slope(near, y, True)
        assert np.allclose(of_gradient, inner.values.T @ change / m, atol=1e-12)
        assert of_loss != 0 and inner.beyond_range(center * 0.1) == (0.0, pytest.approx(0 * center))
