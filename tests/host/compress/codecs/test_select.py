"""Selection by threshold, against a loop over Python numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bitlane.compress.codecs.select import select
from bitlane.errors import DataError

SIZES = [0, 1, 7, 63, 64, 65, 511, 512, 513, 5000, 40000]


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("threshold", [0.0, 0.5, 2.5, math.inf])
def test_the_selection_is_that_of_a_loop(seed: int, count: int, threshold: float, loops: None) -> None:
    values = np.random.default_rng(seed).normal(size=count).astype(np.float32)
    values[::17] = threshold if math.isfinite(threshold) else 1.0  # a tie is selected
    expected = [index for index, value in enumerate(values.tolist()) if abs(value) >= threshold]
    indices, selected = select(values, threshold)
    assert (indices.dtype, selected.dtype) == (np.int64, np.float32)
    assert indices.tolist() == expected
    assert selected.tolist() == [float(values[index]) for index in expected]


def test_the_threshold_is_a_float32(loops: None) -> None:
    assert select(np.float32([0.1]), 0.1)[0].tolist() == [0]  # float32(0.1) is above 0.1
    assert select(np.float32([0.7]), 0.7)[0].tolist() == [0]  # float32(0.7) is below 0.7


def test_nan_is_never_selected(loops: None) -> None:
    values = np.float32([np.nan, -np.inf, 0.0, -0.0, 1e-45])
    assert select(values, 0.0)[0].tolist() == [1, 2, 3, 4]
    assert select(values, 1e-45)[0].tolist() == [1, 4]


@pytest.mark.parametrize("values", [np.zeros(3), np.zeros(6, np.float32)[::2], np.zeros((2, 2), np.float32), [1.0]])
def test_other_arrays_are_refused(values: object, loops: None) -> None:
    with pytest.raises(DataError):
        select(values, 1.0)
