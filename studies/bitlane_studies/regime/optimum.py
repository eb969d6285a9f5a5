"""The optimum of a problem in float64: Newton's method, or proximal gradients with restarts for l1."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from .problems import Doubles, FitProblem

NEWTON_STEPS = 60
PROXIMAL_STEPS = 20_000
MANY = 20  # targets: from there on, L-BFGS of all of them at once is quicker than Newton's method for each
JOINT_STEPS = 500
DECREMENT = 1e-10  # of the objective: Newton's estimate of what is left
HINGE_WIDTHS = (2.0, 0.3, 0.1, 0.03, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4)  # of the parabola at the corner, in turn
LinearModel = tuple[Doubles, float]  # weights and intercept
Slopes = Callable[[Doubles, Doubles], tuple[Doubles, Doubles, Doubles]]  # scores, y: losses, first and second slopes


def optimum_of(problem: FitProblem) -> tuple[float, Doubles, Doubles]:
    """Return the least objective that was found, and its coefficients and intercepts.

    Returns
    -------
    float
    float64 array [folds, penalties, targets, n]
    float64 array [folds, penalties, targets]
    """
    Z = problem.X.astype(np.float64)
    shape = problem.shape_of_models
    folds, targets = shape[0], shape[-1]
    coef: Doubles = np.zeros([*shape, Z.shape[1]])
    intercept: Doubles = np.zeros([*shape])
    for fold in range(folds):
        mask = problem.kept(fold)
        rows, labels = (Z, problem.y) if mask.all() else (Z[mask], problem.y[mask])
        if problem.loss == "squared_error" and problem.penalty == "l2":
            coef[fold], intercept[fold] = ridges(rows, labels.astype(np.float64), problem.alphas)
            continue
        if targets > MANY and problem.loss == "log_loss":
            coef[fold, 0], intercept[fold, 0] = joint(rows, labels.astype(np.float64), problem.alphas[0])
            continue
        for target in range(targets):
            y = labels[:, target].astype(np.float64)
            weights, bias = np.zeros(Z.shape[1]), 0.0
            for index, alpha in sorted(enumerate(problem.alphas), key=lambda pair: -pair[1]):
                weights, bias = _fit(rows, y, problem, alpha, (weights, bias))
                coef[fold, index, target], intercept[fold, index, target] = weights, bias
    return problem.objective(coef, intercept), coef, intercept


def _fit(Z: Doubles, y: Doubles, problem: FitProblem, alpha: float, start: LinearModel) -> LinearModel:
    """Fit one model."""
    if problem.penalty == "l1":
        return proximal(Z, y, _slopes_of(problem.loss), alpha)
    if problem.loss != "hinge":
        return newton(Z, y, _slopes_of(problem.loss), alpha, start)
    for width in HINGE_WIDTHS:
        start = newton(Z, y, _smooth_hinge(width), alpha, start)
    return start


def newton(
    Z: Doubles, y: Doubles, slopes: Slopes, alpha: float, initial: tuple[Doubles, float]
) -> tuple[Doubles, float]:
    """Minimise the mean loss of ``Z @ w + b`` plus ``alpha / 2 * w @ w``, and return w and b.

    Slopes are float64; second slopes are summed in float32 where the table is large, which slows the last steps a
    little and moves no optimum.
    """
    rows, columns = Z.shape
    large = Z.size * columns > 1 << 33
    narrow = Z.astype(np.float32) if large else Z
    weights, bias = initial[0].copy(), initial[1]
    scores = Z @ weights + bias

    def objective(scores: Doubles, weights: Doubles) -> float:
        return float(slopes(scores, y)[0].mean() + alpha / 2 * weights @ weights)

    now = objective(scores, weights)
    for _ in range(NEWTON_STEPS):
        _, first, second = slopes(scores, y)
        used = np.flatnonzero(second)
        bent = narrow if len(used) == rows else narrow[used]
        weighed = bent * second[used, None].astype(narrow.dtype)
        matrix = np.empty((columns + 1, columns + 1))
        matrix[:-1, :-1] = weighed.T @ bent
        matrix[:-1, -1] = matrix[-1, :-1] = weighed.sum(0, dtype=np.float64)
        matrix[-1, -1] = second.sum()
        matrix /= rows
        matrix[np.diag_indices(columns)] += alpha
        matrix[-1, -1] += alpha + 1e-12  # no row may lie at a corner, where an intercept would have no second slope
        gradient = np.append(Z.T @ first / rows + alpha * weights, first.mean())
        step = -np.linalg.solve(matrix, gradient)
        left = -float(step @ gradient)
        if left <= DECREMENT * now:
            break
        change = Z @ step[:-1] + step[-1]
        size = 1.0
        while objective(scores + size * change, weights + size * step[:-1]) > now - 1e-4 * size * left:
            size /= 2
            if size < 1e-10:
                return weights, bias
        weights, bias, scores = weights + size * step[:-1], bias + size * step[-1], scores + size * change
        now = objective(scores, weights)
    return weights, bias


def ridges(Z: Doubles, y: Doubles, alphas: Sequence[float]) -> tuple[Doubles, Doubles]:
    """Solve the ridge regressions of all targets.

    Returns
    -------
    float64 array [penalties, targets, columns]
    float64 array [penalties, targets]
    """
    mean, level = Z.mean(0), y.mean(0)
    matrix = Z.T @ Z / len(Z) - np.outer(mean, mean)
    right = Z.T @ y / len(Z) - np.outer(mean, level)
    coef = np.stack([np.linalg.solve(matrix + alpha * np.eye(len(mean)), right).T for alpha in alphas])
    return coef, level - coef @ mean


def joint(Z: Doubles, y: Doubles, alpha: float) -> tuple[Doubles, Doubles]:
    """Fit logistic regressions of all columns of y at once by L-BFGS on whitened columns.

    Returns
    -------
    float64 array [targets, columns]
    float64 array [targets]
    """
    rows, columns = Z.shape
    matrix = Z.T @ Z / rows
    matrix[np.diag_indices(columns)] += 4 * alpha
    root = np.linalg.inv(np.linalg.cholesky(matrix)).T  # Z @ root has nearly uncorrelated columns
    chances = (1 + y.mean(0)) / 2
    pace = 1 / np.sqrt(chances * (1 - chances))  # about the slope's own scale, which is small for rare classes

    def unfold(flat: Doubles) -> tuple[Doubles, Doubles]:
        point = flat.reshape(columns + 1, -1) * pace
        return root @ point[:-1], point[-1]

    def objective(flat: Doubles) -> tuple[float, Doubles]:
        weights, bias = unfold(flat)
        losses, first, _ = _logistic(Z @ weights + bias, y)
        gradient = np.empty((columns + 1, y.shape[1]))
        gradient[:-1] = root.T @ (Z.T @ first / rows + alpha * weights)
        gradient[-1] = first.mean(0)
        return float(losses.sum() / rows + alpha / 2 * (weights**2).sum()), (gradient * pace).ravel()

    start = np.zeros((columns + 1, y.shape[1]))
    start[-1] = np.log(chances / (1 - chances)) / pace
    options = {"maxiter": JOINT_STEPS, "maxfun": 2 * JOINT_STEPS, "ftol": 1e-12, "gtol": 1e-9, "maxcor": 20}
    found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    weights, bias = unfold(found.x)
    return weights.T, bias


def proximal(Z: Doubles, y: Doubles, slopes: Slopes, alpha: float) -> LinearModel:
    """Minimise the mean loss of ``Z @ w + b`` plus ``alpha * abs(w).sum()`` by accelerated steps with restarts."""
    rows, columns = Z.shape
    bend = slopes(np.zeros(1), np.ones(1))[2].max()  # the largest second slope of both losses is that at 0
    rate = 1 / (bend * max(np.linalg.eigvalsh(Z.T @ Z / rows)[-1], 1.0))
    point = ahead = np.zeros(columns + 1)
    pace, quiet = 1.0, 0
    for _ in range(PROXIMAL_STEPS):
        first = slopes(Z @ ahead[:-1] + ahead[-1], y)[1]
        moved = ahead - rate * np.append(Z.T @ first / rows, first.mean())
        moved[:-1] = np.sign(moved[:-1]) * np.maximum(np.abs(moved[:-1]) - rate * alpha, 0)
        step = moved - point
        if (ahead - moved) @ step > 0:
            pace = 1.0
        following = (1 + np.sqrt(1 + 4 * pace**2)) / 2
        ahead, point, pace = moved + (pace - 1) / following * step, moved, following
        quiet = quiet + 1 if np.abs(step).max() <= 1e-9 * np.abs(point).max() else 0
        if quiet == 5:
            break
    return point[:-1], float(point[-1])


def _slopes_of(loss: str) -> Slopes:
    return _squares if loss == "squared_error" else _logistic


def _squares(scores: Doubles, y: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    residual = scores - y
    return residual**2 / 2, residual, np.ones_like(residual)


def _logistic(scores: Doubles, y: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    chance = 1 / (1 + np.exp(np.minimum(y * scores, 700.0)))
    return np.logaddexp(0.0, -y * scores), -y * chance, chance * (1 - chance)


def _smooth_hinge(width: float) -> Slopes:
    """The hinge with a parabola of `width` below the corner; it is at most half of `width` below the hinge."""

    def slopes(scores: Doubles, y: Doubles) -> tuple[Doubles, Doubles, Doubles]:
        short = np.clip(1 - y * scores, 0, None)
        inside: NDArray[np.bool_] = (short > 0) & (short < width)
        losses = np.where(inside, short**2 / (2 * width), np.maximum(short - width / 2, 0))
        return losses, -y * np.minimum(short / width, 1), inside / width

    return slopes
