"""Training to the optimum on devices against Newton's method in float64 on the same rounded rows."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.devices.cpu import CpuDevice
from bitlane.devices.emulator import EmulatorDevice
from bitlane.encoded.table import EncodedTable
from bitlane.errors import DataError
from bitlane.training.device_sums import DeviceSums
from bitlane.training.objective import Objective
from bitlane.training.to_optimum import OptimumResult, train_to_optimum

KINDS = ("gaussian", "outlier", "rare", "collinear", "one-hot", "integers", "short")


def random_table(rng: np.random.Generator, kind: str, loss: str) -> tuple[Any, Any]:
    rows, n = int(rng.integers(300, 1500)), int(rng.integers(2, 12))
    if kind == "short":
        rows = int(rng.integers(12, 40))
    X = rng.normal(size=(rows, n))
    if kind == "collinear":
        X = X[:, :1] + 0.03 * X
    if kind == "one-hot":
        X = np.eye(n)[rng.integers(n, size=rows)][:, 1:]
    if kind == "integers":
        X = rng.integers(0, 40, (rows, n)).astype(np.int32)
    score = (X - X.mean(axis=0)) @ rng.normal(size=X.shape[1])
    score = score / score.std() + rng.normal(0, 0.7, rows)
    if kind == "outlier":
        X[rng.integers(rows), rng.integers(n)] = 300.0
    if loss == "squared_error":
        return X.astype(np.float32) if kind == "gaussian" else X, score * 7 + 3
    return X, np.where(score > np.quantile(score, 0.97 if kind == "rare" else 0.4), 1.0, -1.0)


def optimum(result: OptimumResult, X: Any, y: Any, loss: str, alpha: float) -> tuple[float, float]:
    """The objective of the result and the least one, in float64, on rows rounded to 8 bits."""
    scaling = result.scaling
    q = (2 * np.clip(np.floor((scaling.values(X) + 1) * 128), 0, 255) - 255) / 256
    margins = loss == "log_loss"
    target = y if margins else (y - scaling.label_center[0]) / scaling.label_unit[0]
    penalty = np.full(q.shape[1], alpha)
    if scaling.intercept_value:
        penalty[-1] = 0.0

    def value(w: Any) -> float:
        z = q @ w
        of_rows = np.logaddexp(0, -target * z) if margins else (z - target) ** 2 / 2
        return float(of_rows.mean() + (penalty * w * w).sum() / 2)

    w = np.zeros(q.shape[1])
    for _ in range(60):
        z = q @ w
        chance = 1 / (1 + np.exp(np.clip(target * z, -40, 40)))
        r, c = (-target * chance, chance * (1 - chance)) if margins else (z - target, np.ones(len(z)))
        hessian = q.T @ (c[:, None] * q) / len(q) + np.diag(penalty + 1e-13)
        step, size = np.linalg.lstsq(hessian, q.T @ r / len(q) + penalty * w, rcond=1e-14)[0], 1.0
        while value(w - size * step) > value(w) and size > 1e-6:
            size /= 2
        w = w - size * step
    return value(result.weights[0]), value(w)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
@pytest.mark.parametrize("kind", KINDS)
def test_models_are_at_their_optimum(seed: int, kind: str, loss: str) -> None:
    rng = np.random.default_rng(seed)
    X, y = random_table(rng, kind, loss)
    alpha = float(rng.choice([1e-2, 1e-4])) if loss == "log_loss" else float(rng.choice([0.0, 1e-3]))
    objective = Objective(loss, "l2" if alpha else None, alpha)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = train_to_optimum(X, y, objective, CpuDevice(), tol=1e-3)
        again = train_to_optimum(X, y, objective, EmulatorDevice(AcceleratorConfig(128, max_features=128)), tol=1e-3)
    assert np.array_equal(result.weights, again.weights) and result.passes == again.passes
    assert np.array_equal(result.objectives, again.objectives)
    got, least = optimum(result, X, y, loss, alpha)
    if kind == "one-hot" and loss == "log_loss" and not result.converged[0]:  # errors of few scores have no mean of 0
        assert any("which the device does not resolve" in str(each.message) for each in told)
        assert got <= least * (1 + 5e-3)
        return
    assert got <= least * (1 + 1e-3) + 1e-6, (kind, got, least, result.estimates)
    assert result.converged.all() and result.passes <= 40
    assert result.objectives[0] == pytest.approx(got, rel=0.01, abs=1e-4)


def test_predictions_are_in_user_units(seed: int) -> None:
    """With little noise, coefficients and intercept are those that made the labels; also without an intercept."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 5, (2000, 4)) * [1, 10, 0.1, 1]
    coef = np.array([2.0, -0.3, 15.0, 0.0])
    for intercept in (4.0, 0.0):
        y = X @ coef + intercept + rng.normal(0, 0.2, len(X))
        result = train_to_optimum(X, y, Objective(), CpuDevice(), bits=12, fit_intercept=intercept != 0, tol=1e-6)
        assert np.allclose(result.coef[0] * X.std(axis=0), coef * X.std(axis=0), atol=0.05)
        assert result.intercept[0] == pytest.approx(intercept, abs=0.1)


def test_targets_share_passes(seed: int) -> None:
    """Three targets on a device with two outputs are the models of three devices."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 5))
    y = np.where(X @ rng.normal(size=(5, 3)) + rng.normal(size=(400, 3)) > 0, 1.0, -1.0)
    objective = Objective("log_loss", "l2", 1e-3)
    together = train_to_optimum(X, y, objective, CpuDevice(AcceleratorConfig(outputs=2)))
    assert together.coef.shape == (3, 5) and together.intercept.shape == (3,) and together.converged.all()
    alone = [train_to_optimum(X, each, objective, CpuDevice()) for each in y.T]
    assert together.passes <= sum(each.passes for each in alone)
    for i, each in enumerate(alone):
        assert np.allclose(together.coef[i], each.coef[0], rtol=0.05, atol=0.05)


def test_an_encoded_table_is_read(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 6))
    y = X @ rng.normal(size=6) + rng.normal(size=500)
    table = EncodedTable.of(X, bits=8)
    tables: list[Any] = [table, X]
    found, expected = (train_to_optimum(each, y, Objective(), CpuDevice()) for each in tables)
    assert np.allclose(found.coef, expected.coef, atol=0.05)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objective": Objective("hinge")}, "loss='hinge' has no way to the optimum on a device"),
        ({"objective": Objective("log_loss", "l1", 0.1)}, "penalty='l1' has no way to the optimum on a device"),
        ({"objective": Objective("log_loss", bounds=(0, 1))}, r"bounds=\(0, 1\) has no way to the optimum"),
        ({"tol": 0.0}, "tol=0.0: choose a number above 0 and below 1"),
        ({"max_passes": 0}, "max_passes=0: it must be at least 1"),
        ({"y": np.arange(20.0)}, "loss='log_loss': the labels must be -1 and 1"),
        ({"y": np.full(20, np.nan)}, "y holds values that are not finite"),
        ({"y": np.ones(40)}, "X has 20 rows, but y has 40"),
        ({"X": np.ones((20, 2))}, "every column of X is constant"),
        ({"device": EmulatorDevice(AcceleratorConfig(level_slots=4096))}, "the features have uniform levels"),
    ],
)
def test_what_cannot_be_trained_is_refused(change: dict[str, Any], message: str) -> None:
    X, y = np.arange(40.0).reshape(20, 2), np.tile([1.0, -1.0], 10)
    options: dict[str, Any] = {"X": X, "y": y, "objective": Objective("log_loss"), "device": EmulatorDevice(), **change}
    with pytest.raises(DataError, match=message):
        train_to_optimum(**options)


def test_classes_that_are_separable_have_no_optimum_without_a_penalty() -> None:
    X = np.arange(40.0).reshape(20, 2)
    with pytest.warns(UserWarning, match="the objective may still fall by"):
        result = train_to_optimum(X, np.where(X[:, 0] < 17, -1.0, 1.0), Objective("log_loss"), CpuDevice(), tol=1e-6)
    assert not result.converged.any() and np.isfinite(result.coef).all()


def test_few_passes_say_so(seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(5000, 8))
    y = np.where(X.sum(axis=1) > 0.3, 1.0, -1.0)
    with pytest.warns(UserWarning, match="after 2 passes .*, raise max_passes=2"):
        result = train_to_optimum(X, y, Objective("log_loss", "l2", 1e-5), CpuDevice(), max_passes=2)
    assert result.passes == 2 and not result.converged[0] and result.estimates[0] > 0


def test_a_constant_target_is_at_its_optimum_at_once() -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    result = train_to_optimum(X, np.full(50, 7.0), Objective(), CpuDevice())
    assert result.converged.all() and result.passes == 1
    assert np.array_equal(result.coef, np.zeros((1, 3))) and result.intercept[0] == pytest.approx(7.0)


def test_squares_of_a_table_that_the_host_has_whole_take_two_passes(seed: int) -> None:
    """The first step ends at the optimum, as nothing is added to the curvature of all rows; the second pass says so."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 6)) * 10.0 ** rng.integers(-2, 3, 6)
    y = X @ (1 / X.std(axis=0)) + rng.normal(size=300)
    assert train_to_optimum(X, y, Objective(), CpuDevice(), tol=1e-6).passes == 2


def test_clipped_scores_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the last pass that helped."""
    at = DeviceSums.at
    monkeypatch.setattr(DeviceSums, "at", lambda *given: replace(at(*given), saturations=3))
    X = np.random.default_rng(0).normal(size=(50, 3))
    with pytest.warns(UserWarning, match="3 scores or residuals beyond 8 in scaled units were clipped"):
        train_to_optimum(X, X.sum(axis=1), Objective(), CpuDevice())
