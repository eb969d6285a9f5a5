"""The further losses and elastic net of the reference against scikit-learn's formulas in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.machines import random_job

from bitlane.contract.fixed_point import encode_float
from bitlane.contract.formats import PENALTY_STEP_FRACTION
from bitlane.contract.further import FurtherLoss
from bitlane.contract.modes import Prox
from bitlane.contract.settings import Settings
from bitlane.contract.state import ModelState
from bitlane.reference.further_losses import further_losses
from bitlane.reference.machine import Reference

UNIT = 2.0**-20  # of dot products and slopes
LOSS_UNIT = 2.0**-32
MARGINS = ("SQUARED_HINGE", "MODIFIED_HUBER")
RESIDUALS = ("HUBER", "EPSILON_INSENSITIVE", "SQUARED_EPSILON_INSENSITIVE")


def margin_loss(name: str, z: Any, y: Any) -> tuple[Any, Any]:
    """Half of scikit-learn's loss of a score z and a label y of -1 or 1, and its slope in z."""
    p = y * z
    inside = np.where(p >= 1, 0.0, (1 - p) ** 2)
    slope = np.where(p >= 1, 0.0, -2 * (1 - p) * y)
    if name == "MODIFIED_HUBER":
        inside, slope = np.where(p >= -1, inside, -4 * p), np.where(p >= -1, slope, -4 * y)
    return inside / 2, slope / 2


def residual_loss(name: str, r: Any, epsilon: float) -> tuple[Any, Any]:
    """The loss of a residual r as scikit-learn has it, half of it for the square, and its slope."""
    size, sign = np.abs(r), np.sign(r)
    if name == "HUBER":
        flat = size > epsilon
        return np.where(flat, epsilon * size - epsilon**2 / 2, r**2 / 2), np.where(flat, epsilon * sign, r)
    outside = np.maximum(size - epsilon, 0)
    if name == "EPSILON_INSENSITIVE":
        return outside, np.where(outside > 0, sign, 0.0)
    return outside**2 / 2, sign * outside


@pytest.mark.parametrize("name", MARGINS)
def test_losses_of_margins(seed: int, name: str) -> None:
    """Within the range of a slope, everything is exact but for half a unit of the loss."""
    rng = np.random.default_rng(seed)
    dots = [rng.integers(-6 << 20, 6 << 20, 20_000) for _ in range(2)]
    labels = rng.integers(-32768, 32768, 20_000)
    slopes, losses, clipped = further_losses(FurtherLoss[name], 0, dots, labels)
    exact = [margin_loss(name, dot * UNIT, np.where(labels >= 0, 1.0, -1.0)) for dot in dots]
    for slope, (_, expected) in zip(slopes, exact, strict=True):
        assert np.array_equal(slope * UNIT, expected)
    assert np.abs(losses * LOSS_UNIT - (exact[0][0] + exact[1][0]) / 2).max() <= LOSS_UNIT / 2
    assert clipped == 0


@pytest.mark.parametrize("name", RESIDUALS)
def test_losses_of_residuals(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    for epsilon in (0, 1, int(rng.integers(1 << 20)), 3 << 20, (1 << 23) - 1):
        labels = rng.integers(-32768, 32768, 20_000)
        dots = [(labels << 5) + (rng.integers(-6 << 20, 6 << 20, 20_000) >> rng.integers(20)) for _ in range(2)]
        slopes, losses, clipped = further_losses(FurtherLoss[name], epsilon, dots, labels)
        exact = [residual_loss(name, dot * UNIT - labels / 32768, epsilon * UNIT) for dot in dots]
        for slope, (_, expected) in zip(slopes, exact, strict=True):
            assert np.array_equal(slope * UNIT, expected)
        assert np.abs(losses * LOSS_UNIT - (exact[0][0] + exact[1][0]) / 2).max() <= LOSS_UNIT / 2
        assert clipped == 0


@pytest.mark.parametrize(
    ("name", "label", "count"),
    [
        ("SQUARED_HINGE", 1, 2),  # of each copy the margin, of two values below the range
        ("MODIFIED_HUBER", 1, 0),
        ("HUBER", 0, 4),  # each dot product
        ("EPSILON_INSENSITIVE", 0, 4),
        ("SQUARED_EPSILON_INSENSITIVE", 0, 4),
    ],
)
def test_values_beyond_the_range_are_clipped(name: str, label: int, count: int) -> None:
    far, near = np.array([-(1 << 40), 1 << 40]), np.array([-(1 << 23), (1 << 23) - 1])
    labels, epsilon = np.array([label, label]), 1 << 22
    found, expected = (further_losses(FurtherLoss[name], epsilon, [dot, dot], labels) for dot in (far, near))
    assert np.array_equal(found[0], expected[0]) and np.array_equal(found[1], expected[1])
    assert found[2] == count and np.abs(found[0]).max() < 1 << 23


def shrunk(weights: Any, threshold: int, rate: float, batches: int, phase: float) -> Any:
    """The weights after a soft threshold in each batch, and a shrink by 1/64 whenever the phase passes 1."""
    for _ in range(batches):
        weights = np.sign(weights) * np.maximum(np.abs(weights) - threshold, 0)
        phase += rate
        if phase >= 1:
            phase -= 1
            weights = weights - np.floor(weights / 64)
    return weights


def test_elastic_net_is_a_threshold_and_then_a_shrink(seed: int) -> None:
    """Rows of labels that are met exactly, so that only the penalty changes weights."""
    rng = np.random.default_rng(seed)
    job, samples = random_job(rng, rows=64, features=9, batch=4, draws=False, sets=1, outputs=2, base_digits=2)
    threshold, rate, phase = 2.0**-9, 0.375, 0.8125
    settings = Settings(
        step=0,
        step_negative=0,
        penalty_step=encode_float(threshold, PENALTY_STEP_FRACTION),
        prox=Prox.L1,
        shrink_step=encode_float(rate, PENALTY_STEP_FRACTION),
        shrink_phase=int(phase * 2**32),
        unpenalized_intercept=True,
    )
    reference = Reference(job.geometry, ModelState(job.state.master, settings))
    reference.feed(*samples[0])
    state = reference.end_epoch().state
    exact = shrunk(job.state.master.astype(np.float64), int(threshold * 2**28), rate, 16, phase)
    assert np.array_equal(state.master[:, :-1], exact[:, :-1])
    assert np.array_equal(state.master[:, -1], job.state.master[:, -1])
    assert state.settings.shrink_phase / 2**32 == (phase + 16 * rate) % 1 and state.settings.phase == 16 * 2**23
