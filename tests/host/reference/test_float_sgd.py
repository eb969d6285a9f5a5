"""The reference at full precision against SGD in float64, and the bias of each sampling."""

import numpy as np
import pytest

from bitlane.contract.fixed_point import encode_float
from bitlane.contract.formats import PENALTY_STEP_FRACTION, STEP_FRACTION
from bitlane.contract.geometry import Geometry
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.packing import master_weights, weight_values
from bitlane.contract.precision import Precision
from bitlane.contract.settings import Settings
from bitlane.contract.state import ModelState
from bitlane.quantization.positions import value_positions
from bitlane.quantization.quantize import base_codes, draw_codes
from bitlane.reference.machine import run_epochs


def float_sgd(X, y, batch, learning_rate, epochs, slope=lambda z, y: z - y, prox=lambda w: w, staleness=0):
    """Run mini-batch SGD in float64; the slope is the derivative of the loss with respect to z."""
    w = np.zeros(X.shape[1])
    for _ in range(epochs):
        models = [w] * (1 + staleness)
        for start in range(0, len(X), batch):
            rows = X[start : start + batch]
            r = slope(rows @ models[-1 - staleness], y[start : start + batch])
            w = prox(w - learning_rate / batch * rows.T @ r)
            models.append(w)
    return w


def trained(X, labels, batch, epochs, learning_rate, **settings):
    """Train with the reference at full precision; return the weights, float64 [n]."""
    precision = Precision(32, "full")
    geometry = Geometry(X.shape[1], len(X), precision.base_digits, False, batch, rows_per_beat=4)
    step = encode_float(learning_rate / batch, STEP_FRACTION)
    samples = [(base_codes(value_positions(X, precision), precision), None, labels[:, None])] * epochs
    start = master_weights(np.zeros((1, X.shape[1])))
    *_, last = run_epochs(
        samples, geometry, ModelState(start, Settings(**{"step": step, "step_negative": step} | settings))
    )
    assert last.saturations == 0
    return weight_values(last.state.master)[0]


def regression(seed, n=20, rows=300):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, n))
    labels = np.rint(32767 * np.clip(X @ rng.normal(0, 0.15, n), -1, 1)).astype(np.int16)
    return X, labels, labels / 32768


@pytest.mark.parametrize("staleness", [0, 1])
def test_full_precision_is_float_sgd(seed, staleness):
    X, labels, y = regression(seed)
    found = trained(X, labels, 16, 5, 0.2, staleness=staleness)
    expected = float_sgd(X, y, 16, 0.2, 5, staleness=staleness)
    assert np.abs(expected).max() > 0.05
    assert found == pytest.approx(expected, abs=2e-5)
    other = float_sgd(X, y, 16, 0.2, 5, staleness=1 - staleness)
    assert np.abs(found - other).max() > 1e-4, "the test cannot tell one staleness from the other"


def classes(seed, n=10, rows=400):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, n))
    y = np.where(X @ rng.normal(0, 1, n) + rng.normal(0, 0.5, rows) > 0, 1, -1)
    return X, (y * rng.integers(1, 32768, rows)).astype(np.int16), y


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_hinge_is_float_sgd(seed, weight):
    X, labels, y = classes(seed)
    step = encode_float(weight * 0.2 / 16, STEP_FRACTION)
    found = trained(X, labels, 16, 4, 0.2, loss=Loss.HINGE, step_negative=step)
    expected = float_sgd(X, y, 16, 0.2, 4, lambda z, y: np.where(y * z < 1, -y, 0) * np.where(y > 0, 1, weight))
    assert np.abs(expected).max() > 0.5
    assert found == pytest.approx(expected, abs=0.05)  # a margin may be within a rounding error of 1


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_logistic_is_float_sgd(seed, weight):
    X, labels, y = classes(seed)
    step = encode_float(weight * 0.2 / 16, STEP_FRACTION)
    found = trained(X, labels, 16, 4, 0.2, loss=Loss.LOGISTIC, step_negative=step)
    expected = float_sgd(X, y, 16, 0.2, 4, lambda z, y: (1 / (1 + np.exp(-z)) - (y > 0)) * np.where(y > 0, 1, weight))
    assert np.abs(expected).max() > 0.3
    assert found == pytest.approx(expected, abs=0.01)


def test_shrinking_is_l2(seed):
    X, labels, y = regression(seed, n=5, rows=2000)
    alpha, learning_rate = 0.05, 0.1
    rate = encode_float(alpha * learning_rate * 64, PENALTY_STEP_FRACTION)
    found = trained(X, labels, 10, 4, learning_rate, penalty_step=rate, prox=Prox.L2)
    with_penalty = float_sgd(X, y, 10, learning_rate, 4, prox=lambda w: w * (1 - alpha * learning_rate))
    without = float_sgd(X, y, 10, learning_rate, 4)
    assert np.abs(with_penalty - without).max() > 0.01
    assert found == pytest.approx(with_penalty, abs=0.005)


@pytest.mark.parametrize("unpenalized_intercept", [False, True])
def test_the_threshold_is_l1_and_gives_exact_zeros(seed, unpenalized_intercept):
    X, _, _ = regression(seed, n=6, rows=2000)
    labels = np.rint(32767 * np.clip(X @ [0.5, 0, -0.4, 0, 0, 0.01], -1, 1)).astype(np.int16)
    alpha, learning_rate = 0.05, 0.5
    rate = encode_float(alpha * learning_rate, PENALTY_STEP_FRACTION)
    found = trained(
        X, labels, 200, 4, learning_rate, penalty_step=rate, prox=Prox.L1, unpenalized_intercept=unpenalized_intercept
    )

    def soft(w):
        thresholded = np.sign(w) * np.maximum(np.abs(w) - alpha * learning_rate, 0)
        return np.where(np.arange(6) < 6 - unpenalized_intercept, thresholded, w)

    assert found == pytest.approx(float_sgd(X, labels / 32768, 200, learning_rate, 4, prox=soft), abs=1e-4)
    assert found[[1, 3, 4]].tolist() == [0, 0, 0]
    assert (found[5] != 0) == unpenalized_intercept


@pytest.mark.parametrize("unpenalized_intercept", [False, True])
def test_the_box_is_a_projection(seed, unpenalized_intercept):
    X, _, _ = regression(seed, n=6, rows=2000)
    # Two weights beyond each bound by ten times the noise of a batch, so that every seed ends on the bounds.
    labels = np.rint(32767 * np.clip(X @ [0.4, -0.4, 0.3, -0.3, 0, 0.1], -1, 1)).astype(np.int16)
    low, high = -0.015625, 0.0078125
    bounds = (int(low * 4096), int(high * 4096))
    found = trained(X, labels, 200, 5, 0.2, prox=Prox.BOX, bounds=bounds, unpenalized_intercept=unpenalized_intercept)

    def project(w):
        return np.where(np.arange(6) < 6 - unpenalized_intercept, np.clip(w, low, high), w)

    assert found == pytest.approx(float_sgd(X, labels / 32768, 200, 0.2, 5, prox=project), abs=2e-5)
    assert found[:4].tolist() == [high, low, high, low]
    assert (found[5] > high) == unpenalized_intercept


def standard_errors(seed, precision, rounds=4000, n=6, batch=8):
    """Return the bias of the quantized gradients of one batch in standard errors, along the weights.

    The bias of naive sampling is the variance of each feature times its weight (ZipML, section 2.2), so it adds up in
    the direction of the weights. Every round draws new codes; the weights are far from the optimum.
    """
    rng = np.random.default_rng(seed)
    X = precision.limit * rng.uniform(-0.9, 0.9, (batch, n))
    weights = rng.choice([-1.0, 1.0], n) * rng.uniform(0.5, 1.0, n)
    labels = np.rint(32767 * rng.uniform(-1, 1, batch)).astype(np.int16)
    geometry = Geometry(n, batch, precision.base_digits, precision.draws, batch)
    step = 0.25
    settings = Settings(*[encode_float(step, STEP_FRACTION)] * 2)
    start = master_weights(weights[None])
    found = np.empty(rounds)
    for i in range(rounds):
        positions, words = value_positions(X, precision), rng.integers(1 << 32, size=X.shape, dtype=np.uint32)
        codes = base_codes(positions, precision, words)
        draws = draw_codes(positions, precision, words) if precision.draws else None
        (epoch,) = run_epochs([(codes, draws, labels[:, None])], geometry, ModelState(start, settings))
        assert epoch.saturations == 0
        found[i] = weights @ (start.astype(np.float64) - epoch.state.master)[0] / 2.0**28 / step
    exact = weights @ X.T @ (X @ weights - labels / 32768)
    return (found.mean() - exact) / (found.std() / np.sqrt(rounds))


@pytest.mark.parametrize("bits", [2, 4])
def test_double_sampling_is_unbiased(seed, bits):
    assert abs(standard_errors(seed, Precision(bits, "double"))) < 4


def test_naive_sampling_is_biased(seed):
    """The measure detects the bias that double sampling removes."""
    assert standard_errors(seed, Precision(2, "naive")) > 4
