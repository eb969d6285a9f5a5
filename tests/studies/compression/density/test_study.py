"""The study of densities: figures for hand-made counts, and the results of each controller."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bitlane.compress import MiCRO
from bitlane_studies.compression.density.gradients import SyntheticGradients
from bitlane_studies.compression.density.study import DensityResult, authors_bytes, entropy_bytes, run_density

pytestmark = pytest.mark.torch


def test_figures_follow_from_the_counts():
    counts = np.array([[200, 0]] * 19 + [[60, 45]] + [[50, 50], [50, 61], [44, 45], [40, 60]] * 5)
    outcome = DensityResult(100, counts, 0, 0.0, 0, 0)
    assert outcome.first_in_band == 19
    assert outcome.share_in_band == 0.5
    assert outcome.total == pytest.approx((19 * 2 + 1.05 + 5 * 4.0) / 40)


def test_no_step_within_the_band():
    assert DensityResult(100, np.array([[0, 0]] * 30), 0, 0.0, 0, 0).first_in_band is None


def test_entropy():
    assert entropy_bytes(30, 7) * 8 == pytest.approx(math.log2(math.comb(30, 7)))


def test_bytes_of_the_authors_format():
    """Two steps of three ranks send counts, indices padded to the maximum, and values around a ring."""
    counts = np.array([[5, 2, 1], [0, 4, 4]])
    first = 3 * 2 * (8 + 8 * 5) + 2 * 2 * 4 * 8
    second = 3 * 2 * (8 + 8 * 4) + 2 * 2 * 4 * 8
    assert authors_bytes(counts) == first + second


@pytest.mark.parametrize("kind", ["normal", "layers"])
def test_micro_keeps_the_density_with_few_bytes(seed, kind):
    """MiCRO keeps the density in every step, and its bytes are within the limits for indices and in total."""
    outcome = run_density(MiCRO(0.01), SyntheticGradients(kind, 1e-5, 20_000, seed), 4, 40)
    assert outcome.first_in_band == 0 and outcome.share_in_band == outcome.total == 1
    assert outcome.index_bytes <= 1.1 * outcome.entropy
    assert (
        outcome.sent - 40 * 12 * (100 + 8) <= 0.65 * outcome.authors_bytes
    )  # without tails and lengths, which matter only because k is small


def test_sent_bytes_follow_from_the_counts(seed):
    """The sent bytes are the sum of the bytes of values, indices and headers."""
    outcome = run_density(MiCRO(0.02, "published"), SyntheticGradients("normal", 0.05, 3000, seed), 3, 30)
    values = 2 * 2 * 4 * int(outcome.counts.sum())
    assert outcome.sent == values + 2 * outcome.index_bytes + 30 * 6 * 8


def test_the_published_controller_drifts(seed):
    """Its initial threshold suits one scale: gradients 1000 times smaller or larger miss the density by far."""
    small, large = (
        run_density(MiCRO(0.01, "published"), SyntheticGradients("normal", s, 5000, seed), 2, 60) for s in (1e-5, 10.0)
    )
    assert small.first_in_band is None and small.total == 0
    assert large.first_in_band is None and large.total > 50
