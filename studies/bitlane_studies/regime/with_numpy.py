"""Solvers of a few lines over float32 BLAS: a Gram matrix, L-BFGS with all models in one product, mini-batch SGD."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from .contender import FittedModels, Program
from .problems import Doubles, FitProblem, Floats

BATCH = 64
LAST_RATE = 0.03  # of SGD's last epoch, over that of its first
EPOCHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
TUNING = 20_000, 12  # rows and epochs of the trainings that choose a learning rate
RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


def iterations(least: int = 2, most: int = 2000, factor: float = 1.25) -> list[int]:
    """Return rungs of a limit of iterations, each about `factor` times the one before."""
    rungs = [least]
    while rungs[-1] < most:
        rungs.append(min(most, max(rungs[-1] + 1, round(rungs[-1] * factor))))
    return rungs


def each_fold(problem: FitProblem) -> Iterator[tuple[int, Floats, Floats]]:
    """Yield each fold with a copy of its rows and labels; without folds, the table itself."""
    for fold in range(problem.folds):
        mask = problem.kept(fold)
        yield (fold, problem.X, problem.y) if mask.all() else (fold, problem.X[mask], problem.y[mask])


# --- a Gram matrix
GRAM_FORMS = ("float32", "float64")


def gram(problem: FitProblem, form: str, given: Any) -> FittedModels:
    """Solve ridge regressions by one pass over the rows; the matrix of a fold is that of all rows less its own."""
    from scipy.linalg import solve

    X, y = problem.X, problem.y
    rows, columns = X.shape
    pieces = []
    for first, last in pairwise(np.linspace(0, rows, problem.folds + 1).astype(int)):
        block, labels = X[first:last].astype(form, copy=False), y[first:last].astype(form, copy=False)
        right = (block.T @ labels).astype(np.float64)
        sums = block.sum(0, dtype=np.float64), labels.sum(0, dtype=np.float64)
        pieces.append((last - first, (block.T @ block).astype(np.float64), right, *sums))
    coef, intercept = np.empty((*problem.shape_of_models, columns)), np.empty(problem.shape_of_models)
    for fold in range(problem.folds):
        others = [piece for place, piece in enumerate(pieces) if problem.folds == 1 or place != fold]
        count, matrix, right, sums, labels = (sum(part) for part in zip(*others, strict=True))
        mean, level = sums / count, labels / count
        matrix, right = matrix / count - np.outer(mean, mean), right / count - np.outer(mean, level)
        for index, alpha in enumerate(problem.alphas):
            weights = solve(matrix + alpha * np.eye(columns), right, assume_a="pos")
            coef[fold, index], intercept[fold, index] = weights.T, level - mean @ weights
    return FittedModels(coef, intercept, X.nbytes)


# --- L-BFGS
def lbfgs(problem: FitProblem, limit: int, given: Any) -> FittedModels:
    """Fit all targets of a fold and penalty by scipy's L-BFGS at once; penalties start where the larger one ended."""
    from scipy.optimize import minimize

    coef, intercept = np.empty((*problem.shape_of_models, problem.X.shape[1])), np.empty(problem.shape_of_models)
    targets = problem.y.shape[1]
    read = 0
    for fold, X, y in each_fold(problem):
        start = np.zeros((X.shape[1] + 1) * targets)
        for index, alpha in sorted(enumerate(problem.alphas), key=lambda pair: -pair[1]):

            def objective(flat: Doubles, X: Floats = X, y: Floats = y, alpha: float = alpha) -> tuple[float, Doubles]:
                weights = flat.reshape(-1, targets)
                scores = X @ weights[:-1].astype(np.float32) + weights[-1].astype(np.float32)
                loss, slope = SLOPES[problem.loss](scores, y)
                gradient = np.empty_like(weights)
                gradient[:-1] = X.T @ slope
                gradient[-1] = slope.sum(0, dtype=np.float64)
                gradient /= len(y)
                gradient[:-1] += alpha * weights[:-1]
                return loss / len(y) + alpha / 2 * float((weights[:-1] ** 2).sum()), gradient.ravel()

            options = {"maxiter": limit, "maxfun": 2 * limit + 10, "ftol": 0.0, "gtol": 1e-9, "maxcor": 10}
            found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
            start = found.x
            weights = start.reshape(-1, targets)
            coef[fold, index], intercept[fold, index] = weights[:-1].T, weights[-1]
            read += 2 * found.nfev * X.nbytes
    return FittedModels(coef, intercept, read)


def _squares(scores: Floats, y: Floats) -> tuple[float, Floats]:
    residual = scores - y
    return float(np.vdot(residual, residual)) / 2, residual


def _logistic(scores: Floats, y: Floats) -> tuple[float, Floats]:
    margin = y * scores
    small = np.exp(-np.abs(margin))
    loss = float((np.log1p(small) - np.minimum(margin, 0)).sum(dtype=np.float64))
    return loss, -y * np.where(margin > 0, small, 1).astype(np.float32) / (1 + small)


def _hinge(scores: Floats, y: Floats) -> tuple[float, Floats]:
    short = 1 - y * scores
    return float(np.maximum(short, 0).sum(dtype=np.float64)), np.where(short > 0, -y, np.float32(0))


SLOPES: dict[str, Callable[[Floats, Floats], tuple[float, Floats]]] = {
    "squared_error": _squares,
    "log_loss": _logistic,
    "hinge": _hinge,
}


# --- SGD
def sgd(problem: FitProblem, epochs: int, given: dict[str, float]) -> FittedModels:
    """Mini-batch SGD in float32 BLAS, rows in the table's order; the rate falls from epoch to epoch."""
    X = problem.X
    targets, alpha = problem.y.shape[1], np.float32(problem.alphas[0])
    middle = problem.y.mean(0) if problem.loss == "squared_error" else np.zeros(targets, np.float32)
    labels, bias = problem.y - middle, np.zeros(targets, np.float32)
    weights: Floats = np.zeros((X.shape[1], targets), np.float32)
    if targets == 1:  # products with vectors are quicker than those with matrices of one column
        labels, weights, bias = labels[:, 0], weights[:, 0], bias[0]
    slopes = SLOPES[problem.loss]
    first = given["rate"] * BATCH / max(float((X[:1000] ** 2).sum()) / min(len(X), 1000), 1.0)
    for epoch in range(epochs):
        rate = np.float32(first * LAST_RATE ** (epoch / max(epochs - 1, 1)))
        step = rate / BATCH
        for start in range(0, len(X), BATCH):
            rows = X[start : start + BATCH]
            slope = slopes(rows @ weights + bias, labels[start : start + BATCH])[1]
            weights *= 1 - rate * alpha
            weights -= step * (rows.T @ slope)
            bias -= step * slope.sum(0)
    return FittedModels(np.float64(weights.T), np.float64(bias + middle), epochs * X.nbytes)


def some_rows(problem: FitProblem) -> FitProblem:
    """Return the problem with its first rows only."""
    return replace(problem, X=problem.X[: TUNING[0]], y=problem.y[: TUNING[0]])


def tune(problem: FitProblem) -> dict[str, float]:
    """Return the first learning rate that is best in a training of some rows."""
    few, losses = some_rows(problem), {}
    for rate in RATES:
        ends = [few.objective(*sgd(few, epochs, {"rate": rate})[:2]) for epochs in (TUNING[1], EPOCHS[-1])]
        losses[rate] = max(ends) if np.isfinite(ends).all() else np.inf  # more epochs must not diverge
    return {"rate": min(losses, key=lambda rate: losses[rate])}


def programs(problem: FitProblem) -> Iterator[Program]:
    """Yield the programs of this module that fit the problem."""
    version = f"numpy {np.__version__}"
    if problem.penalty == "l1":
        return
    if problem.loss == "squared_error":
        yield Program("numpy, Gram matrix", gram, lambda _: GRAM_FORMS, version=version)
    yield Program("scipy, L-BFGS over float32 BLAS", lbfgs, lambda _: iterations(), version=version, kin="lbfgs")
    if len(problem.alphas) == problem.folds == 1:
        yield Program(
            "numpy, SGD over float32 BLAS", sgd, lambda _: EPOCHS, tune, "the best of six learning rates", version
        )
