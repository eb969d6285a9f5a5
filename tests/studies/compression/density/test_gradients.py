"""Synthetic gradients: independent for each rank and step, with the requested scale and distribution."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane_studies.compression.density.gradients import KINDS, SyntheticGradients

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_independent_and_repeatable(seed, kind):
    gradients = SyntheticGradients(kind, 1e-3, 1001, seed)
    first = gradients.of(1, 5)
    assert first.dtype == np.float32 and first.shape == (1001,)
    assert np.array_equal(first, SyntheticGradients(kind, 1e-3, 1001, seed).of(1, 5))
    for other in (gradients.of(0, 5), gradients.of(1, 6), SyntheticGradients(kind, 1e-3, 1001, seed + 1).of(1, 5)):
        assert np.isin(first, other).mean() < 0.01  # a few values may be equal by chance
    assert SyntheticGradients(kind, 10.0, 1001, seed).of(1, 5) == pytest.approx(1e4 * first, rel=1e-5)


def test_distributions(seed):
    def deviation(kind, rank=0, step=0):
        return SyntheticGradients(kind, 1.0, 100_000, seed).of(rank, step).std()

    assert deviation("normal") == pytest.approx(1, abs=0.02)
    assert deviation("laplace") == pytest.approx(np.sqrt(2), abs=0.05)
    assert deviation("uneven", 3) == pytest.approx(1 / 8, abs=0.01)
    assert deviation("falling", 0, 2000) == pytest.approx(0.01, abs=0.001)
    heavy = SyntheticGradients("heavy", 1.0, 100_000, seed).of(0, 0)
    assert np.quantile(heavy, 0.975) == pytest.approx(3.182, abs=0.15)  # Student's t, 3 degrees of freedom
    layers = SyntheticGradients("layers", 1.0, 16_000, seed).of(0, 0).reshape(16, 1000).std(axis=1)
    assert layers.max() > 2 * layers.min() and layers.max() < 1.2 and layers.min() > 0.0008


def test_unknown_kinds_are_refused():
    with pytest.raises(DataError, match="choose one of normal, laplace"):
        SyntheticGradients("gauss", 1.0, 10, 0)
