"""Tables into [-1, 1] and weights back."""

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.quantize import Precision
from bitlane.scaling import fit_scaling


def table(seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(rng.normal(0, 100, 7), 10.0 ** rng.integers(-4, 6, 7), (50, 7)).astype(dtype)
    return X, rng.normal(5, 3, 50)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_fill_the_range(seed, fit_intercept, dtype):
    X, y = table(seed, dtype)
    scaling = fit_scaling(X, y, fit_intercept)
    values = scaling.values(X)
    assert values.dtype == np.float64
    assert np.abs(values).max(axis=0) == pytest.approx(1, abs=1e-15) and np.abs(values).max() <= 1
    assert np.abs(scaling.labels(y)).max() == 32767
    if fit_intercept:
        assert values.mean(axis=0) == pytest.approx(0, abs=1e-5)


def test_naive_leaves_half_an_interval(seed):
    X, y = table(seed)
    limit = Precision(4, "naive").limit
    assert limit == 1 - 1 / 16
    assert np.abs(fit_scaling(X, y, limit=limit).values(X)).max(axis=0) == pytest.approx(limit)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("limit", [1.0, 0.75])
def test_weights_predict_the_same_in_both_units(seed, fit_intercept, limit):
    X, y = table(seed)
    scaling = fit_scaling(X, y, fit_intercept, limit)
    weights = np.random.default_rng(seed).normal(size=7)
    coef, intercept = scaling.coefficients(weights)
    scaled = scaling.values(X) @ weights  # in units of a label of 1.0, of which 32767 / 32768 is the largest
    expected = scaling.label_center + scaling.label_scale * scaled * 32768 / 32767
    assert X @ coef + intercept == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert scaling.weights(coef) == pytest.approx(weights)
    assert fit_intercept or intercept == 0


def test_constant_columns_have_no_part(seed):
    X, y = table(seed)
    X[:, 2] = 0.1  # whose mean is not 0.1 in floating point
    X[:, 5] = 0
    scaling = fit_scaling(X, y)
    assert scaling.active.tolist() == [0, 1, 3, 4, 6]
    assert scaling.values(X).shape == (50, 5)
    assert scaling.coefficients(np.ones(5))[0][[2, 5]].tolist() == [0, 0]
    assert scaling.expand(np.ones((3, 5)))[1].tolist() == [1, 1, 0, 1, 1, 0, 1]
    # Without an intercept a column of ones is one, and stays.
    assert fit_scaling(X, y, fit_intercept=False).active.tolist() == [0, 1, 2, 3, 4, 6]


def test_equal_labels_are_zero(seed):
    X, _ = table(seed)
    scaling = fit_scaling(X, np.full(50, 0.1))
    assert not scaling.labels(np.full(50, 0.1)).any()
    assert scaling.coefficients(np.ones(7))[1] == 0.1
    assert not scaling.weights(np.ones(7)).any()


def test_ranges_that_overflow():
    with pytest.raises(DataError, match="overflows"):
        fit_scaling(np.array([[1.7e308], [1.7e308], [-1.7e308]]), np.zeros(3))
