"""The authors' threshold scaling: its first threshold, and its factor for each count."""

from __future__ import annotations

import pytest

from bitlane.compress.compressors.selection import ThresholdScaling

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("total", "factor"), [(0, 0.995), (909, 0.995), (910, 1.00125), (1100, 1.00125), (1101, 1.005), (10**6, 1.005)]
)
def test_scaling(total, factor):
    scaling = ThresholdScaling(1000)
    first = 1 / (2 * 1000**0.5)
    assert scaling.threshold == pytest.approx(first, rel=1e-15)
    scaling.update(total)
    assert scaling.threshold == pytest.approx(first * factor, rel=1e-15)
