"""Models at their optimum, against minimisers of scipy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from bitlane.encoded.coded_rows import CodedArray, CodeScale
from bitlane.errors import DataError
from bitlane.solvers.centered import CenteredFit, solve_centered
from bitlane.solvers.coded_objective import CodedObjective
from bitlane.solvers.linear_models import linear_models

LOSSES = ("log_loss", "squared_error", "squared_hinge")


def random_rows(rng: np.random.Generator, rows: int, columns: int) -> CodedArray:
    mixed = rng.standard_normal((rows, columns)) @ rng.standard_normal((columns, columns))
    codes = np.clip(np.rint(mixed / np.abs(mixed).max(axis=0) * 127), -128, 127).astype(np.int8)
    unit = 2.0 ** rng.integers(-9, -5, columns).astype(float)
    return CodedArray(codes, CodeScale(rng.normal(size=columns), unit))


def random_labels(rng: np.random.Generator, rows: CodedArray, loss: str) -> np.ndarray:
    values = rows.scale.values(rows.codes)
    scores = values @ rng.standard_normal(rows.shape[1])
    scores = (scores - scores.mean()) / scores.std() + rng.logistic(size=len(scores))
    return scores if loss == "squared_error" else np.where(scores > 0, 1.0, -1.0)


def losses_of(loss: str, z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Losses and slopes in float64."""
    if loss == "log_loss":
        return np.logaddexp(0, -y * z), -y * np.exp(-np.logaddexp(0, y * z))
    if loss == "squared_error":
        return (z - y) ** 2 / 2, z - y
    lacking = np.maximum(1 - y * z, 0)
    return (lacking, -y * (lacking > 0)) if loss == "hinge" else (lacking**2, -2 * y * lacking)


def textbook(loss: str, values: np.ndarray, y: np.ndarray, weights: np.ndarray, alpha: float, l1_ratio: float):
    """The objective and its gradient, of coefficients above and below 0 and an intercept, in float64."""
    m, share = values.shape[1], weights / weights.sum()

    def of(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        above, below, intercept = parameters[:m], parameters[m : 2 * m], parameters[-1]
        w = above - below
        each, slope = losses_of(loss, values @ w + intercept, y)
        gradient = values.T @ (share * slope) + alpha * (1 - l1_ratio) * w
        size = alpha * l1_ratio
        objective = share @ each + size * (above + below).sum() + alpha * (1 - l1_ratio) / 2 * w @ w
        return objective, np.concatenate([gradient + size, size - gradient, [share @ slope]])

    return of


def optimum(loss: str, rows: CodedArray, y: np.ndarray, weights: np.ndarray, alpha: float, l1_ratio: float) -> float:
    """By L-BFGS-B with bounds, in float64, on standardised columns of the same span."""
    values = rows.scale.values(rows.codes)
    m = values.shape[1]
    of = textbook(loss, values, y, weights, alpha, l1_ratio)
    size = 1 / values.std(axis=0)
    scale = np.concatenate([size, size, [1.0]])
    found = minimize(
        lambda x: (lambda f, g: (f, g * scale))(*of(x * scale)),
        np.zeros(2 * m + 1),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * (2 * m) + [(None, None)],
        options={"maxiter": 20000, "maxfun": 40000, "ftol": 1e-14, "gtol": 1e-10, "maxcor": 30},
    )
    return float(found.fun)


def own_objective(fit: CenteredFit, loss: str, rows: CodedArray, y: np.ndarray, weights: np.ndarray, *penalty: float):
    w = fit.coefficients[0]
    parameters = np.concatenate([np.maximum(w, 0), np.maximum(-w, 0), fit.intercepts[:1]])
    return textbook(loss, rows.scale.values(rows.codes), y, weights, *penalty)(parameters)[0]


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_objective_is_the_optimum_of_a_minimiser(loss: str, l1_ratio: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, int(rng.integers(60, 400)), int(rng.integers(1, 8)))
    y = random_labels(rng, rows, loss)
    weights, alpha = rng.random(len(y)) + 0.1, float(10 ** rng.uniform(-3, -1))
    tol = 1e-5 if l1_ratio < 1 else 1e-3  # with L1 alone, rounding keeps gaps larger
    fit = solve_centered(rows, linear_models(y, loss, alpha, l1_ratio, weights), tol=tol)
    own = own_objective(fit, loss, rows, y, weights, alpha, l1_ratio)
    best = optimum(loss, rows, y, weights, alpha, l1_ratio)
    assert fit.converged.all()
    assert own == pytest.approx(fit.objectives[0], rel=1e-5)
    assert own <= best * (1 + 1.1 * tol) + 1e-9
    assert own - best <= fit.gaps[0] + 1e-6 * own  # the gap is a proof, but for the rounding of passes


def test_hinge_is_the_optimum_of_a_quadratic_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, 40, 3)
    y, alpha = random_labels(rng, rows, "hinge"), float(10 ** rng.uniform(-2, -1))
    if abs(y.sum()) == len(y):
        y[0] = -y[0]
    fit = solve_centered(rows, linear_models(y, "hinge", alpha), tol=1e-3, max_passes=300)
    values, rows_ = rows.scale.values(rows.codes), len(y)
    size = np.concatenate([1 / values.std(axis=0), [1.0]])
    features = np.c_[values, np.ones(rows_)] * size * y[:, None]
    ridge = alpha * np.append(size[:-1] ** 2, 0.0)
    found = minimize(
        lambda x: (ridge @ x[:4] ** 2 / 2 + x[4:].mean(), np.append(ridge * x[:4], np.full(rows_, 1 / rows_))),
        np.concatenate([np.zeros(4), np.ones(rows_)]),
        jac=True,
        method="SLSQP",
        bounds=[(None, None)] * 4 + [(0, None)] * rows_,
        constraints={
            "type": "ineq",
            "fun": lambda x: features @ x[:4] + x[4:] - 1,
            "jac": lambda x: np.c_[features, np.eye(rows_)],
        },
        options={"maxiter": 500, "ftol": 1e-12},
    )
    own = own_objective(fit, "hinge", rows, y, np.ones(rows_), alpha, 0.0)
    assert fit.converged.all()
    assert own <= found.fun * (1 + 1.1e-3) + 1e-9
    assert own - found.fun <= fit.gaps[0] + 1e-6


def test_hinge_takes_few_passes_to_a_small_gap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, 600, 8)
    y, alpha = random_labels(rng, rows, "hinge"), float(10 ** rng.uniform(-3, -1))
    fit = solve_centered(rows, linear_models(y, "hinge", alpha), tol=1e-5, max_passes=1000)
    assert fit.converged.all()
    assert fit.passes < 200


def test_the_best_length_of_a_step_is_the_least_of_many(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, 200, 4)
    y, weights = random_labels(rng, rows, "hinge"), rng.integers(0, 3, 200)
    objective = CodedObjective(rows, linear_models(y, "hinge", 0.01, row_weights=weights))
    objective.smoothed(float(rng.choice([1.0, 1e-3])))
    (point, end), one = rng.normal(size=(2, 5)) * np.append(2e-2 * np.ones(4), 1), np.zeros(1, np.intp)
    objective.evaluate(point[None], one)
    assert objective.scores is not None
    start = objective.scores[0].copy()
    objective.evaluate(end[None], one)
    length = objective.best_length(0, start, point, end - point)
    lengths = np.append(np.linspace(0, 1, 60), length)
    values = [objective.evaluate((point + each * (end - point))[None], one).values[0] for each in lengths]
    assert values[-1] <= min(values) * (1 + 1e-5)  # lengths are found to 2**-20


def test_without_an_intercept_the_gradient_is_0(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, 300, 5)
    y, alpha = random_labels(rng, rows, "log_loss"), float(10 ** rng.uniform(-2, 0))
    fit = solve_centered(rows, linear_models(y, alpha=alpha, fit_intercept=False), tol=1e-8)
    values = rows.scale.values(rows.codes)
    slope = losses_of("log_loss", values @ fit.coefficients[0], y)[1]
    gradient = values.T @ slope / len(y) + alpha * fit.coefficients[0]
    size = np.abs(values).T @ np.abs(slope) / len(y)
    assert fit.intercepts[0] == 0
    assert (np.abs(gradient) <= 1e-3 * size).all()


def test_many_models_are_single_models(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, 500, 6)
    targets = np.c_[[random_labels(rng, rows, "log_loss") for _ in range(3)]].T
    folds = (rng.integers(0, 4, 500)[:, None] != np.arange(4)).astype(float)
    which = np.array([(t, f, a) for t in range(3) for f in range(4) for a in (1e-3, 1e-1)])
    many = linear_models(targets, "log_loss", which[:, 2], 0.0, folds, which[:, 0], which[:, 1])
    fit = solve_centered(rows, many, tol=1e-8)
    for k, (target, fold, alpha) in enumerate(which):
        inside = folds[:, int(fold)] > 0
        part = CodedArray(np.ascontiguousarray(rows.codes[inside]), rows.scale)
        alone = solve_centered(part, linear_models(targets[inside, int(target)], "log_loss", alpha), tol=1e-8)
        assert fit.objectives[k] == pytest.approx(alone.objectives[0], rel=1e-6)
        assert np.allclose(fit.coefficients[k], alone.coefficients[0], rtol=1e-2, atol=1e-3)


def test_weights_are_repeated_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, 200, 4)
    y, weights = random_labels(rng, rows, "log_loss"), rng.integers(0, 4, 200)
    often = CodedArray(np.repeat(rows.codes, weights, axis=0), rows.scale)
    fit = solve_centered(rows, linear_models(y, alpha=1e-2, row_weights=weights), tol=1e-9)
    repeated = solve_centered(often, linear_models(np.repeat(y, weights), alpha=1e-2), tol=1e-9)
    assert np.allclose(fit.coefficients, repeated.coefficients, rtol=1e-2, atol=1e-3)
    assert fit.objectives == pytest.approx(repeated.objectives, rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_exact_rows_are_reached_from_codes_of_4_bits(loss: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, 400, 4)
    values, y = rows.scale.values(rows.codes), random_labels(rng, rows, loss)
    few = CodedArray(rows.codes >> 4, rows.scale.at(8, 4), 4)
    models = linear_models(y, loss, 1e-2)
    coarse = solve_centered(few, models, tol=1e-7)
    fit = solve_centered(few, models, tol=1e-7, exact=values, refine=8)
    best = optimum(loss, rows, y, np.ones(400), 1e-2, 0.0)
    assert fit.converged.all()
    assert fit.exact_reads <= 9
    own = own_objective(fit, loss, rows, y, np.ones(400), 1e-2, 0.0)
    assert own <= best * (1 + 1e-6)
    assert own <= own_objective(coarse, loss, rows, y, np.ones(400), 1e-2, 0.0) * (1 + 1e-7)


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_hinge"])
def test_separable_classes_end(loss: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, 100, 3)
    y = np.where(rows.codes[:, 0] > np.median(rows.codes[:, 0]), 1.0, -1.0)
    models = linear_models(y, loss, 0.0)
    if loss == "log_loss":
        with pytest.warns(UserWarning, match="separate"):
            fit = solve_centered(rows, models)
    else:
        fit = solve_centered(rows, models)
    assert fit.objectives[0] <= 1e-3
    assert np.isfinite(fit.coefficients).all()


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_hinge", "squared_error"])
def test_labels_of_one_kind_and_a_single_row(loss: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, 50, 3)
    fit = solve_centered(rows, linear_models(np.ones(50), loss, 1e-2))
    one = CodedArray(rows.codes[:1], rows.scale)
    alone = solve_centered(one, linear_models([-1.0], loss, 1e-2))
    for each, sign in ((fit, 1), (alone, -1)):
        assert np.allclose(each.coefficients, 0, atol=1e-2)
        assert each.intercepts[0] * sign > 0.5
        assert each.objectives[0] <= 1e-6


def test_columns_of_wild_scales(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, 500, 5)
    size = 10.0 ** rng.integers(-8, 9, 5)
    wild = CodedArray(rows.codes, CodeScale(rows.scale.center * size + 1e3 * size, rows.scale.unit * size))
    y = random_labels(rng, rows, "log_loss")
    fit, plain = (solve_centered(each, linear_models(y, alpha=0.0), tol=1e-8) for each in (wild, rows))
    assert fit.objectives == pytest.approx(plain.objectives, rel=1e-6)
    assert np.allclose(fit.coefficients * size, plain.coefficients, rtol=1e-3, atol=1e-3)


def test_the_same_bits_twice_and_with_threads(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, 3000, 20)
    targets = np.c_[[random_labels(rng, rows, "log_loss") for _ in range(3)]].T
    fits = [solve_centered(rows, linear_models(targets), threads=threads) for threads in (1, 1, 2)]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.coefficients, fits[0].coefficients)
        assert fit.passes == fits[0].passes


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"targets": [0.0, 1.0]}, "labels -1 and 1"),
        ({"targets": [1.0, np.nan]}, "not finite"),
        ({"loss": "huber"}, "choose"),
        ({"alpha": -1.0}, "alpha=-1.0"),
        ({"l1_ratio": 2.0}, "l1_ratio=2.0"),
        ({"row_weights": [0.0, 0.0]}, "all weights of rows of model 0 are 0"),
        ({"row_weights": [1.0, -1.0]}, "0 or more"),
        ({"row_weights": [1.0]}, "1 rows and targets 2"),
        ({"target_of": [1]}, "number 1 of targets"),
    ],
)
def test_bad_arguments_are_named(changed: dict, message: str) -> None:
    given = {"targets": [-1.0, 1.0]} | changed
    with pytest.raises(DataError, match=message):
        linear_models(**given)
