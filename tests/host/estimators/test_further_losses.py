"""Trainings with further losses and elastic net: optima of the same objectives, equal bits, and what refuses them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.emulators import fastest
from tests.helpers.machines import Recorded

from bitlane import DataError, SGDClassifier, SGDRegressor
from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.further import SoftwareConfig
from bitlane.devices import open_device
from bitlane.devices.emulator import EmulatorDevice
from bitlane.training.checkpoint import Checkpoint

EXACT: dict[str, Any] = {"bits": 32, "sampling": "full", "epochs": 150, "device": "cpu"}
REGRESSIONS = ("huber", "epsilon_insensitive", "squared_epsilon_insensitive")
CLASSIFICATIONS = ("squared_hinge", "modified_huber")


def regression(seed: int, rows: int = 500, n: int = 6, outliers: float = 0.0) -> tuple[Any, Any, Any]:
    """A table, labels with noise of 0.5 and a share of outliers, and the true coefficients."""
    rng = np.random.default_rng(seed)
    X, coef = rng.normal(rng.normal(size=n), rng.uniform(0.5, 3, n), (rows, n)), rng.normal(size=n)
    far = (rng.random(rows) < outliers) * rng.normal(20, 10, rows)
    return X, X @ coef + 2 + rng.normal(0, 0.5, rows) + far, coef


def classification(seed: int, rows: int = 500) -> tuple[Any, Any]:
    """A table and labels of -1 and 1, of which some are on the wrong side."""
    X, y, _ = regression(seed, rows)
    noise = np.random.default_rng([seed, 1]).normal(0, y.std() / 2, rows)  # no classes that nearly separate
    return X, np.where(y + noise > np.median(y), 1, -1)


def loss_of(name: str, y: Any, epsilon: float) -> Callable[[Any], tuple[Any, Any]]:
    """Scikit-learn's loss of scores, and its slopes."""

    def of_margins(scores: Any) -> tuple[Any, Any]:
        p = y * scores
        flat = (name == "modified_huber") & (p < -1)
        values = np.where(flat, -4 * p, np.maximum(0, 1 - p) ** 2)
        return values, np.where(flat, -4 * y, -2 * y * np.maximum(0, 1 - p))

    def of_residuals(scores: Any) -> tuple[Any, Any]:
        r = scores - y
        size, sign = np.abs(r), np.sign(r)
        if name == "squared_error":
            return r**2 / 2, r
        if name == "huber":
            flat = size > epsilon
            return np.where(flat, epsilon * size - epsilon**2 / 2, r**2 / 2), np.where(flat, epsilon * sign, r)
        return np.maximum(0, size - epsilon) ** 2, 2 * sign * np.maximum(0, size - epsilon)

    return of_margins if name in CLASSIFICATIONS else of_residuals


def least(X: Any, loss: Callable[[Any], tuple[Any, Any]], alpha: float = 0.0) -> float:
    """The least mean loss with ``alpha / 2 |w|**2`` of a linear model with an intercept: scipy's minimiser."""
    optimize = pytest.importorskip("scipy.optimize")
    rows = np.column_stack([X - X.mean(axis=0), np.ones(len(X))])
    strength = np.append(np.full(X.shape[1], alpha), 0.0)

    def mean(weights: Any) -> tuple[float, Any]:
        values, slopes = loss(rows @ weights)
        return float(values.mean() + strength @ weights**2 / 2), rows.T @ slopes / len(rows) + strength * weights

    return float(optimize.minimize(mean, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B", tol=1e-14).fun)


@pytest.mark.parametrize("outliers", [0.0, 0.05])
@pytest.mark.parametrize("loss", ["huber", "squared_epsilon_insensitive"])
def test_regressions_reach_the_optimum(seed: int, loss: str, outliers: float) -> None:
    """Within 0.5 %, and the loss of the last epoch within 2 %."""
    X, y, _ = regression(seed, outliers=outliers)
    model = SGDRegressor(loss=loss, epsilon=0.4, random_state=0, **EXACT)
    measured = loss_of(loss, y, 0.4)
    best = least(X, measured)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of labels far away
        model.fit(X, y)
    assert measured(model.predict(X))[0].mean() == pytest.approx(best, rel=5e-3)
    assert model.loss_curve_[-1] == pytest.approx(best, rel=2e-2)


@pytest.mark.parametrize("outliers", [0.0, 0.05])
def test_epsilon_insensitive_reaches_the_optimum(seed: int, outliers: float) -> None:
    """Within 1 % of the optimum of a linear program."""
    optimize = pytest.importorskip("scipy.optimize")
    X, y, _ = regression(seed, rows=300, outliers=outliers)
    rows, n = np.column_stack([X, np.ones(len(X))]), X.shape[1] + 1
    cost = np.append(np.zeros(n), np.full(len(y), 1 / len(y)))
    sides = np.block([[rows, -np.eye(len(y))], [-rows, -np.eye(len(y))]])
    limits = [(None, None)] * n + [(0, None)] * len(y)
    best = optimize.linprog(cost, sides, np.append(y + 0.4, 0.4 - y), bounds=limits).fun
    model = SGDRegressor(loss="epsilon_insensitive", epsilon=0.4, random_state=0, **EXACT).fit(X, y)
    assert np.maximum(0, np.abs(model.predict(X) - y) - 0.4).mean() == pytest.approx(best, rel=1e-2)
    assert model.loss_curve_[-1] == pytest.approx(best, rel=3e-2)


@pytest.mark.parametrize("epsilon", [0.03, 0.3, 3.0])
def test_the_automatic_rate_suits_any_epsilon(seed: int, epsilon: float) -> None:
    """300 rows in the default 20 epochs end within 30 % of the optimum; the rate of squares left 8 times as much."""
    X, y, _ = regression(seed, rows=300)
    model = SGDRegressor(loss="huber", epsilon=epsilon, random_state=0, **EXACT | {"epochs": 20}).fit(X, y)
    measured = loss_of("huber", y, epsilon)
    assert measured(model.predict(X))[0].mean() == pytest.approx(least(X, measured), rel=0.3)


def test_the_ridge_of_the_draws_does_not_hide_slopes_of_a_small_epsilon(seed: int) -> None:
    """Few rows of 4 bits need a ridge, which falls with epsilon: the loss is near that of 32 bits."""
    X, y, _ = regression(seed, rows=200)
    ridges = []
    for epsilon in (0.01, 0.1, 10.0):
        options: dict[str, Any] = {"loss": "huber", "epsilon": epsilon, "random_state": 0, "device": "cpu"}
        model = SGDRegressor(bits=4, **options).fit(X, y)
        ridges.append(model.run_.ridge)
        assert model.score(X, y) > 0.7
    assert 0 < ridges[0] == pytest.approx(ridges[1] / 10) and ridges[1] < ridges[2]


@pytest.mark.parametrize("alpha", [0.0, 0.02])
@pytest.mark.parametrize("loss", CLASSIFICATIONS)
def test_classifications_reach_the_optimum(seed: int, loss: str, alpha: float) -> None:
    """Within 0.2 % with the penalty, and the loss of the last epoch within 2 %."""
    X, y = classification(seed)
    model = SGDClassifier(loss=loss, penalty="l2", alpha=alpha, random_state=0, **EXACT).fit(X, y)
    measured = loss_of(loss, y, 0.0)
    scale = model.run_.scaling.scale
    best = least(X / scale, measured, alpha)
    ours = measured(model.decision_function(X))[0].mean()
    assert ours + alpha / 2 * np.sum((model.coef_ * scale) ** 2) == pytest.approx(best, rel=2e-3)
    assert model.loss_curve_[-1] == pytest.approx(ours, rel=2e-2)


@pytest.mark.parametrize("l1_ratio", [0.15, 0.7])
def test_elastic_net_reaches_the_optimum(seed: int, l1_ratio: float) -> None:
    """The scaled weights of sklearn's coordinate descent, to 0.01, on columns and labels as they are stored."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y, coef = regression(seed)
    y = y - X[:, :2] @ coef[:2]  # two columns without an effect
    model = SGDRegressor(penalty="elasticnet", alpha=0.02, l1_ratio=l1_ratio, random_state=0, **EXACT).fit(X, y)
    scaling = model.run_.scaling
    values, labels = (X - scaling.center) / scaling.scale, (y - y.mean()) / scaling.label_unit
    exact = linear_model.ElasticNet(alpha=0.02, l1_ratio=l1_ratio, tol=1e-10, max_iter=100_000).fit(values, labels)
    assert np.abs(model.run_.weights - exact.coef_).max() < 0.01
    zeros = np.abs(exact.coef_) == 0
    assert np.abs(model.run_.weights[zeros]).max(initial=0.0) < 0.002


def test_outliers_pull_huber_less_than_squares(seed: int) -> None:
    X, y, coef = regression(seed, outliers=0.1)
    errors = []
    for loss in ("huber", "squared_error"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = SGDRegressor(loss=loss, epsilon=0.5, bits=8, epochs=40, random_state=0, device="cpu").fit(X, y)
        errors.append(np.abs(model.predict(X) - (X @ coef + 2)).mean())
    assert errors[0] < errors[1] / 3


def test_probabilities_of_modified_huber_are_scikit_learns(seed: int) -> None:
    """Of two classes and of three, against its formula on the same scores."""
    stock = pytest.importorskip("sklearn.linear_model").SGDClassifier(loss="modified_huber")
    rng = np.random.default_rng(seed)
    for classes in (2, 3):
        labels = rng.integers(0, classes, 200)
        X = rng.normal(size=(200, 4)) + 2 * np.eye(4)[labels]
        model = SGDClassifier(loss="modified_huber", bits=8, random_state=0, device="cpu").fit(X, labels)
        stock.coef_, stock.intercept_, stock.classes_ = model.coef_, model.intercept_, model.classes_
        far = np.vstack([X, 100 * rng.normal(size=(50, 4))])
        assert model.predict_proba(far) == pytest.approx(stock.predict_proba(far))
        with np.errstate(divide="ignore"):
            assert model.predict_log_proba(far) == pytest.approx(stock.predict_log_proba(far))


def random_model(rng: np.random.Generator, device: Any) -> tuple[Any, Any, Any]:
    """An estimator with random parameters, and a table for it."""
    regressing = bool(rng.integers(2))
    parameters: dict[str, Any] = {
        "loss": str(rng.choice(REGRESSIONS if regressing else CLASSIFICATIONS)),
        "bits": int(rng.choice([2, 3, 4, 5, 6, 8, 16, 32])),
        "sampling": "double",
        "draws": int(rng.integers(1, 4)),
        "epochs": 4,
        "batch_size": int(rng.choice([1, 7, 16])),
        "staleness": int(rng.integers(2)),
        "fit_intercept": bool(rng.integers(2)),
        "random_state": int(rng.integers(1 << 30)),
        "device": device,
    }
    if rng.integers(2):
        parameters |= {"penalty": "elasticnet", "alpha": 0.01, "l1_ratio": float(rng.uniform())}
    if parameters["bits"] < 6 and rng.integers(2) and parameters["bits"] > 2:
        parameters["levels"] = "optimal"
    X = rng.normal(size=(120, int(rng.integers(2, 70)))) * 10.0 ** rng.integers(-3, 4)
    if regressing:
        y = X @ rng.normal(size=(X.shape[1], int(rng.integers(1, 4)))) + rng.normal(size=(120, 1))
        model: Any = SGDRegressor(epsilon=float(y.std() * rng.uniform(0.01, 1)), **parameters)
        return model, X, y[:, 0] if y.shape[1] == 1 else y
    weights = "balanced" if rng.integers(2) else None
    return SGDClassifier(class_weight=weights, **parameters), X, rng.integers(0, int(rng.integers(2, 5)), 120)


@pytest.mark.parametrize("trainings", [20, pytest.param(300, marks=pytest.mark.slow)])
def test_devices_and_resumed_trainings_have_the_same_bits(seed: int, trainings: int, tmp_path: Path) -> None:
    """`cpu` as `emulator`, three models at a time as one, and a training that stops after an epoch and goes on."""
    for number in range(seed, seed + trainings):
        found = []
        for name in ("emulator", "cpu", "three", "resumed"):
            model, X, y = random_model(np.random.default_rng(number), "cpu" if name == "resumed" else name)
            if name == "three":
                slots = 4096 if model.bits in (3, 5) or model.levels == "optimal" else 0
                model.device = open_device("cpu", SoftwareConfig(outputs=3, level_slots=slots))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                model.fit(X, y, snapshots=True)
                if name == "resumed":
                    model.run_.checkpoint(2).save(tmp_path / "checkpoint.npz")
                    model.fit(X, y, resume=Checkpoint.load(tmp_path / "checkpoint.npz"))
            found.append((model.coef_, model.intercept_, model.run_.checkpoint().settings, model.run_.loss[-1]))
        for other in found[1:]:
            for ours, theirs in zip(found[0], other, strict=True):
                assert np.array_equal(ours, theirs) if isinstance(ours, np.ndarray) else ours == theirs, number


def test_epsilon_is_in_units_of_y(seed: int) -> None:
    """Labels and epsilon times a power of two give the same weights, and coefficients times it."""
    X, y, _ = regression(seed)
    for loss in REGRESSIONS:
        models = [
            SGDRegressor(loss=loss, epsilon=0.3 * unit, bits=8, random_state=0, device="cpu").fit(X, y * unit)
            for unit in (1.0, 1024.0)
        ]
        assert (models[0].coef_ * 1024).tolist() == models[1].coef_.tolist()
        power = 1 if loss == "epsilon_insensitive" else 2
        assert models[1].loss_curve_ == pytest.approx([loss * 1024**power for loss in models[0].loss_curve_])


def test_targets_of_other_units_share_no_pass(seed: int) -> None:
    """Their epsilons differ in scaled units; alone each has the same coefficients."""
    X, y, _ = regression(seed)
    both = np.column_stack([y, 7 * y + X[:, 0] ** 2])
    options: dict[str, Any] = {"loss": "huber", "bits": 8, "learning_rate": 0.5, "random_state": 0}
    together = SGDRegressor(device=open_device("cpu", SoftwareConfig(outputs=2)), **options).fit(X, both)
    assert together.run_.passes == 2
    for i in range(2):
        alone = SGDRegressor(device="cpu", **options).fit(X, both[:, i])
        assert together.coef_[i].tolist() == alone.coef_.tolist()


@pytest.mark.parametrize(
    ("parameters", "what"),
    [
        ({"loss": "huber"}, "loss='huber'"),
        ({"loss": "epsilon_insensitive"}, "loss='epsilon_insensitive'"),
        ({"penalty": "elasticnet", "alpha": 1e-3}, "penalty='elasticnet'"),
    ],
)
def test_a_device_without_them_refuses_before_anything_is_written(
    seed: int, parameters: dict[str, Any], what: str
) -> None:
    """As a board would, whose unknown registers read as 0."""
    X, y, _ = regression(seed)
    board = Recorded()
    board.name = "pynq"
    message = f"pynq has no {what}: use device='cpu', or a device opened with SoftwareConfig()"
    with pytest.raises(DataError) as caught:
        SGDRegressor(device=board, **parameters).fit(X, y)
    assert str(caught.value) == message
    assert board.written == [] and board.allocated == 0


def test_one_of_several_devices_without_them_refuses_before_the_others_begin(seed: int) -> None:
    X, y, _ = regression(seed)
    devices = [Recorded(SoftwareConfig()), Recorded()]
    with pytest.raises(DataError, match="emulator has no loss='huber'"):
        SGDRegressor(loss="huber", device=devices, on_device_failure="continue").fit(X, y)
    assert devices[0].written == devices[1].written == []


def test_a_device_of_little_memory_goes_on_with_both_phases(seed: int) -> None:
    """Several launches have the bits of one."""
    X, y, _ = regression(seed, rows=2000)
    options: dict[str, Any] = {"penalty": "elasticnet", "alpha": 0.01, "bits": 8, "epochs": 3, "random_state": 0}
    runs = [
        SGDRegressor(loss="huber", device=EmulatorDevice(SoftwareConfig(), capacity), **options).fit(X, y).run_
        for capacity in (1 << 27, 1 << 16)
    ]
    assert runs[0].launches == 1 < runs[1].launches
    assert np.array_equal(runs[0].checkpoint().master, runs[1].checkpoint().master)


@pytest.mark.parametrize("parameters", [{"l1_ratio": 0.0}, {"l1_ratio": 1.0}])
def test_the_ends_of_elastic_net_run_everywhere(seed: int, parameters: dict[str, Any]) -> None:
    """They are L2 and L1, with the bits of these, on a device without elastic net."""
    X, y, _ = regression(seed)
    options: dict[str, Any] = {"alpha": 1e-3, "bits": 8, "random_state": 0, "device": fastest()}
    ours = SGDRegressor(penalty="elasticnet", **parameters, **options).fit(X, y)
    theirs = SGDRegressor(penalty="l1" if parameters["l1_ratio"] else "l2", **options).fit(X, y)
    assert ours.coef_.tolist() == theirs.coef_.tolist()


def test_elastic_net_takes_the_ridge_of_the_draws(seed: int) -> None:
    """At 2 bits there is one, which goes to the L2 part; an l1 penalty has no room for it."""
    X, y, _ = regression(seed)
    options: dict[str, Any] = {"bits": 2, "alpha": 1e-4, "random_state": 0, "device": "cpu"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        net = SGDRegressor(penalty="elasticnet", **options).fit(X, y).run_
        lasso = SGDRegressor(penalty="l1", **options).fit(X, y).run_
    assert net.ridge > 0 and lasso.ridge == 0
    assert net.checkpoint().settings[0].shrink_step > 0 == lasso.checkpoint().settings[0].shrink_step


def test_the_register_tells_what_a_device_has() -> None:
    for name in ("cpu", "emulator"):
        for config, has in ((AcceleratorConfig(), 0), (SoftwareConfig(), 1)):
            device = open_device(name, config)
            device.write(0x084, 77)
            assert device.read(0x038) == has and device.read(0x084) == 77 * has


def test_the_ridge_of_a_heavy_class_fits_the_penalty_step() -> None:
    """Its share of the ridge may be above 1, more than the automatic rate has room for."""
    model, X, y = random_model(np.random.default_rng(1566), "cpu")
    assert model.class_weight == "balanced" and model.fit(X, y).run_.ridge > 0


def test_clipped_slopes_of_squared_hinge_are_told_as_such(seed: int) -> None:
    """Draws of 2 bits make margins below -7 of ordinary columns; no weight comes near its limit."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2_000, 6))
    y = X @ rng.normal(size=6) > 0
    model = SGDClassifier(2, loss="squared_hinge", device="cpu", random_state=seed)
    told = r"margins were below -7, .*: use more bits \(bits=8\) or loss='modified_huber'$"
    with pytest.warns(UserWarning, match=told):
        model.fit(X, y)
    assert np.abs(model.run_.stored_weights).max() < model.run_.scaling.weight_limit / 2
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "[0-9]+ values were clipped")
        model.set_params(bits=8).fit(X, y)
