"""End-to-end low precision: the registers, resumed trainings, and the variance of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.emulators import emulator

from bitlane import SGDClassifier, SGDRegressor
from bitlane.contract.fixed_point import encode_float
from bitlane.contract.formats import STEP_FRACTION
from bitlane.devices.emulator import EmulatorDevice
from bitlane.errors import DataError
from bitlane.quantization.scaling import fit_scaling
from bitlane.quantization.stochastic import model_cut, scaled_gradient_cut
from bitlane_studies.gradient_variance import Trial, gradient_variance

BOTH = {"model_bits": 9, "gradient_bits": 8}


def some_table(seed: int, rows: int = 90, n: int = 37) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, n))
    return X, X @ rng.normal(size=n) + rng.normal(0, 0.1, rows)


def bits_of(model: SGDRegressor | SGDClassifier) -> tuple[Any, ...]:
    return model.coef_.tolist(), model.intercept_.tolist(), model.run_.loss.tolist()


def test_cuts():
    assert [model_cut(bits) for bits in (None, 2, 8, 23)] == [0, 30, 24, 9]
    step = encode_float(2.0**-6, STEP_FRACTION)  # slopes of 1 give s = 2**-5, 2**24 units: 26 bits with the sign
    assert [scaled_gradient_cut(bits, step) for bits in (None, 32, 26, 25, 8, 2)] == [0, 0, 0, 1, 18, 24]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"model_bits": 1}, "model_bits=1: must be None or an integer from 2 to 23"),
        ({"model_bits": 24}, "model_bits=24"),
        ({"gradient_bits": True}, "gradient_bits=True: must be None or an integer from 2 to 32"),
        ({"gradient_bits": 8.0}, "gradient_bits=8.0"),
    ],
)
def test_unsupported_bits_are_refused(asked, message):
    X, y = some_table(0)
    with pytest.raises(DataError, match=message):
        SGDRegressor(device="emulator", **asked).fit(X, y)


def test_a_step_too_large_for_so_few_bits_is_refused():
    with pytest.raises(DataError, match="gradient_bits=2 is too few for a step of 7: choose 4"):
        scaled_gradient_cut(2, encode_float(7.0, STEP_FRACTION))


def test_a_device_without_random_rounding_is_refused():
    X, y = some_table(0)
    device = EmulatorDevice()
    with pytest.raises(DataError, match="emulator has no random rounding: open a device with random_rounding=True"):
        SGDRegressor(device=device, **BOTH).fit(X, y)
    assert device.allocated == 0


@pytest.mark.parametrize("levels", ["uniform", "optimal"])
def test_results_do_not_depend_on_the_division_into_launches(seed, levels):
    """One launch, parts of an epoch and a resumed run give equal results; another seed or no rounding gives others."""
    X, y = some_table(seed, rows=900)
    slots = 0 if levels == "uniform" else 64
    asked: dict[str, Any] = {"bits": 4, "levels": levels, "epochs": 4, "random_state": seed, **BOTH}

    def trained(capacity: int = 1 << 20, **others: Any) -> SGDRegressor:
        device = emulator(capacity_bytes=capacity, level_slots=slots, random_rounding=True)
        return SGDRegressor(device=device, **{**asked, **others}).fit(X, y)

    whole = trained()
    parts = trained(9 * 4096)
    assert whole.run_.launches == 1 and parts.run_.launches > 4 and bits_of(parts) == bits_of(whole)

    half = trained(epochs=2)
    device = emulator(level_slots=slots, random_rounding=True)
    resumed = SGDRegressor(device=device, **asked).fit(X, y, resume=half.run_.checkpoint())
    assert (resumed.coef_.tolist(), resumed.intercept_.tolist()) == (whole.coef_.tolist(), whole.intercept_.tolist())

    others: tuple[dict[str, Any], ...] = ({"random_state": seed + 1}, {"model_bits": None}, {"gradient_bits": None})
    assert all(bits_of(trained(**other)) != bits_of(whole) for other in others)


def test_a_device_opened_by_name_has_random_rounding(seed):
    """Each of three classes is trained in a pass of its own, with its own random words."""
    X, y = some_table(seed)
    labels = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))
    model = SGDClassifier(device="emulator", loss="log_loss", random_state=seed, epochs=3, **BOTH).fit(X, labels)
    assert model.score(X, labels) > 0.5
    assert model.run_.settings["model_bits"] == 9


def test_variances_equal_the_formulas(seed):
    """The expected variances are computed in float64, for a single batch of all rows.

    Random rounding with unit u has the variance u^2 p (1 - p). Rounding the model adds the sum over k, j of
    M_kj^2 var X_j, where M is the mean of a a'. Rounding the scaled gradients adds the sum over i of
    |a_i|^2 var s_i / 4.
    """
    rng = np.random.default_rng(seed)
    X, y = some_table(seed, rows=8, n=5)
    weights, rate = rng.uniform(-0.5, 0.5, 5), 0.1
    trial = Trial(model_bits=8, gradient_bits=6, batch=8, learning_rate=rate, batches=20, repeats=50)
    found = gradient_variance(X, y, weights, trial, seed)

    def variance(values: np.ndarray, unit: float) -> np.ndarray:
        place = np.mod(values / unit, 1.0)
        return np.asarray(unit**2 * place * (1 - place))

    scaling = fit_scaling(X, y.reshape(-1, 1))
    a, label = scaling.values(X), scaling.labels(y.reshape(-1, 1))[:, 0] / 2**15
    second = a.T @ a / len(a)
    model = float((second**2 @ variance(weights, 2.0**-4)).sum())
    assert found.model == pytest.approx(model, rel=0.3)

    step = encode_float(rate / 8, STEP_FRACTION)
    unit = 2.0 ** (scaled_gradient_cut(6, step) - 29)
    s = 2 * rate / 8 * (a @ weights - label)
    coefficient = float(((a**2).sum(axis=1) * variance(s, unit)).sum() / 4 / rate**2)
    assert found.scaled_gradient == pytest.approx(coefficient, rel=0.3)
    assert found.bias < 5 * found.bias_error + 1e-7
    assert found.all > found.model + found.scaled_gradient
