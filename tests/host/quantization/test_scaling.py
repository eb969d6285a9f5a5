"""Scaling of data to [-1, 1], and of weights back to user units."""

import numpy as np
import pytest

from bitlane.contract.precision import Precision
from bitlane.errors import DataError
from bitlane.quantization.positions import position_map
from bitlane.quantization.quantize import base_codes, draw_codes
from bitlane.quantization.scaling import fit_scaling, intercept_value


def table(seed, dtype=np.float64, targets=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(rng.normal(0, 100, 7), 10.0 ** rng.integers(-4, 6, 7), (50, 7)).astype(dtype)
    return X, rng.normal(5, 3, (50, targets)) * [1, 100][:targets]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_fill_the_range(seed, fit_intercept, dtype):
    X, y = table(seed, dtype)
    scaling = fit_scaling(X, y, fit_intercept)
    values = scaling.values(X)
    assert values.dtype == np.float64
    assert np.abs(values).max(axis=0) == pytest.approx(1, rel=2.0**-23) and np.abs(values).max() <= 1
    assert np.abs(scaling.labels(y)).max(axis=0).tolist() == [32767, 32767]
    if fit_intercept:
        assert values.mean(axis=0) == pytest.approx(0, abs=1e-5)


def test_targets_are_scaled_separately(seed):
    X, y = table(seed)
    both = fit_scaling(X, y)
    for target in range(2):
        alone = fit_scaling(X, y[:, target : target + 1])
        assert alone.label_center[0] == both.label_center[target]
        assert alone.label_scale[0] == both.label_scale[target]
        assert alone.labels(y[:, target : target + 1])[:, 0].tolist() == both.labels(y)[:, target].tolist()


def test_naive_sampling_reserves_half_an_interval(seed):
    X, y = table(seed)
    limit = Precision(4, "naive").limit
    assert limit == 1 - 1 / 16
    assert np.abs(fit_scaling(X, y, limit=limit).values(X)).max(axis=0) == pytest.approx(limit, rel=2.0**-23)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("limit", [1.0, 0.75])
@pytest.mark.parametrize("margins", [False, True])
@pytest.mark.parametrize("one", [0.0, 1.0, 0.75])
def test_weights_predict_the_same_in_both_units(seed, fit_intercept, limit, margins, one):
    X, y = table(seed)
    scaling = fit_scaling(X, y, fit_intercept, limit, margins=margins, intercept_value=one)
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(2, scaling.stored_features))
    coef, intercept = scaling.coefficients(weights)
    scaled = scaling.values(X) @ weights.T  # a scaled label of 1.0 is one unit; the largest label is 32767 / 32768
    unit = 1 if margins else scaling.label_scale * 32768 / 32767
    assert X @ coef.T + intercept == pytest.approx(scaling.label_center + unit * scaled, rel=1e-5, abs=1e-5)
    assert scaling.weights(coef, intercept) == pytest.approx(weights, rel=1e-6, abs=1e-6)
    assert fit_intercept or not intercept.any()
    history = rng.normal(size=(3, *weights.shape))  # any leading axes
    assert scaling.coefficients(history)[0][1].tolist() == scaling.coefficients(history[1])[0].tolist()
    assert scaling.coefficients(history)[1][1].tolist() == scaling.coefficients(history[1])[1].tolist()


def test_labels_of_margins_are_not_scaled(seed):
    X, y = table(seed, targets=1)
    y = np.sign(y - 5)
    scaling = fit_scaling(X, y, margins=True, intercept_value=1.0)
    assert (scaling.label_center.tolist(), scaling.label_scale.tolist(), scaling.label_unit.tolist()) == ([0], [1], [1])
    assert scaling.labels(y).tolist() == (32767 * y).tolist()


@pytest.mark.parametrize("bits", [2, 4, 8, 30])
@pytest.mark.parametrize("sampling", ["double", "nearest", "naive", "full"])
def test_the_intercept_feature_is_stored_exactly(seed, bits, sampling):
    """Every precision and every draw stores the outermost code, which stands for `one` exactly."""
    precision = Precision(32 if sampling == "full" else bits, sampling)
    one = intercept_value(precision)
    X, y = table(seed)
    scaling = fit_scaling(X, y, limit=precision.limit, margins=True, intercept_value=one)
    values = scaling.values(X)
    assert scaling.stored_features == 8 and values.shape == (50, 8) and (values[:, -1] == one).all()
    assert values[:, :-1].tolist() == fit_scaling(X, y, limit=precision.limit).values(X).tolist()
    words = np.random.default_rng(seed).integers(1 << 32, size=values.shape, dtype=np.uint32)
    positions = position_map(scaling, precision).positions(X)
    codes = base_codes(positions, precision, words)[:, -1].astype(np.int64)
    q = 2 * codes + 1 - (1 << precision.base_bits)
    if precision.draws:
        assert (draw_codes(positions, precision, words)[:, -1] == 3).all()
        q += 1
    assert (q == one * 2**precision.base_bits).all()


def test_constant_columns_are_not_stored(seed):
    X, y = table(seed)
    X[:, 2] = 0.1  # the mean of this column is not 0.1 in floating point
    X[:, 5] = 0
    scaling = fit_scaling(X, y)
    assert scaling.active.tolist() == [0, 1, 3, 4, 6] and scaling.stored_features == 5
    assert scaling.values(X).shape == (50, 5)
    assert not scaling.coefficients(np.ones((2, 5)))[0][:, [2, 5]].any()
    assert scaling.expand(np.ones((3, 2, 5)))[1, 1].tolist() == [1, 1, 0, 1, 1, 0, 1]
    with_one = fit_scaling(X, y, intercept_value=1.0)
    assert with_one.stored_features == 6 and with_one.expand(np.ones((2, 6))).shape == (2, 7)
    # Without an intercept, a constant column other than zero is a feature and stays.
    assert fit_scaling(X, y, fit_intercept=False, intercept_value=1.0).active.tolist() == [0, 1, 2, 3, 4, 6]


def test_equal_labels_are_zero(seed):
    X, y = table(seed)
    y[:, 0] = 0.1
    scaling = fit_scaling(X, y)
    assert not scaling.labels(y)[:, 0].any() and scaling.labels(y)[:, 1].any()
    assert scaling.coefficients(np.ones((2, 7)))[1][0] == 0.1
    weights = scaling.weights(np.ones((2, 7)), np.zeros(2))
    assert not weights[0].any() and weights[1].all()


def test_selected_targets_and_unused_outputs(seed):
    X, y = table(seed)
    scaling = fit_scaling(X, y).for_targets(np.array([1]), 3)
    labels = scaling.labels(np.column_stack([y[:, 1], y[:, 0], y[:, 0]]))
    assert labels[:, 0].tolist() == fit_scaling(X, y).labels(y)[:, 1].tolist()
    assert not labels[:, 1:].any()


def test_overflowing_ranges_are_refused():
    with pytest.raises(DataError, match="overflows"):
        fit_scaling(np.array([[1.7e308], [1.7e308], [-1.7e308]]), np.zeros((3, 1)))
