"""Newton's method on exact rows: each read makes a Gram matrix a model. It is for tables whose codes say too little."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .solution import Floats, Solution
from .standard_rows import StandardRows

Column = NDArray[np.float32]

JITTER = 1e-7  # of the mean diagonal, that keeps a singular matrix solvable: the rounding of float32
HALVINGS = 30
RISE = 1e-6  # of an objective, that rounding of float32 explains


class Curve(NamedTuple):
    """Losses [r] of margins or residuals, their slopes and their second derivatives."""

    loss: Column
    slope: Column
    bend: Column


def _log_loss(scores: Column, labels: Column) -> Curve:
    margin = scores * labels
    small = np.exp(-np.abs(margin))
    wrong = np.where(margin >= 0, small, np.float32(1)) / (1 + small)
    return Curve(np.log1p(small) + np.maximum(-margin, 0), -labels * wrong, wrong * (1 - wrong))


def _squared_hinge(scores: Column, labels: Column) -> Curve:
    short = np.maximum(1 - scores * labels, 0)
    return Curve(short * short, -2 * labels * short, 2 * (short > 0).astype(np.float32))


CURVES: dict[str, Callable[[Column, Column], Curve]] = {"log_loss": _log_loss, "squared_hinge": _squared_hinge}


def exact_newton(
    rows: StandardRows,
    labels: NDArray[np.float32],
    loss: str,
    alpha: float,
    *,
    weights: NDArray[np.float32] | None = None,
    fit_intercept: bool = True,
    tol: float = 1e-4,
    most: int = 100,
) -> Solution:
    """Minimise ``mean(loss) + alpha / 2 * |coef|**2`` for each target, on exact rows.

    Parameters
    ----------
    rows : StandardRows
        Of n columns, m of which vary.
    labels : float32 array [rows, models]
        -1 and 1.
    loss : {"log_loss", "squared_hinge"}
    alpha : float
        Of coefficients in user units.
    weights : float32 array [rows, models], optional
        Of the rows; their sum is above 0.
    fit_intercept : bool, default=True
        The intercept is not penalised. Without it, columns are still centred, and the centre is taken off the scores.
    tol : float, default=1e-4
        Part of the objective, by which it may still fall.
    most : int, default=100
        Iterations at most.

    Returns
    -------
    Solution
        The excess is half of the squared Newton decrement, which it is about near the optimum.
    """
    m, models = rows.shape[1], labels.shape[1]
    state = _State(rows, labels, CURVES[loss], alpha, weights, fit_intercept)
    w = np.zeros((models, m + 1))
    value, gradient, bend = state.read(w)
    passes = iteration = 1
    gap = np.full(models, np.inf)
    while iteration <= most:
        step = np.stack([_newton_step(*each) for each in zip(bend, gradient, strict=True)])
        gap = -(step * gradient).sum(axis=1) / 2
        todo = gap > tol * value
        if not todo.any():
            break
        size = np.where(todo, 1.0, 0.0)
        for _ in range(HALVINGS):
            tried = w + size[:, None] * step
            new_value, new_gradient, new_bend = state.read(tried)
            passes += 1
            rose = new_value > value * (1 + RISE)
            if not rose.any():
                break
            size[rose] /= 2
        w, value, gradient, bend = tried, new_value, new_gradient, new_bend
        iteration += 1
    of_varying = w[:, :m] / rows.spread
    coef = np.zeros((models, rows.columns))
    coef[:, rows.active] = of_varying
    intercept = w[:, m] - of_varying @ rows.mean if fit_intercept else np.zeros(models)
    done, bytes_read = gap <= tol * value, passes * rows.stored_bytes
    return Solution("newton", coef, intercept, value, gap, done, iteration, passes, bytes_read)


class _State:
    """The objective of all models; `read` is a pass over the rows."""

    def __init__(
        self,
        rows: StandardRows,
        labels: NDArray[np.float32],
        curve: Callable[[Column, Column], Curve],
        alpha: float,
        weights: NDArray[np.float32] | None,
        fit_intercept: bool,
    ):
        self._rows, self._labels, self._curve, self._weights = rows, labels, curve, weights
        self._free = fit_intercept
        self._penalty = np.append(alpha / rows.spread**2, 0.0)
        self._mass = np.full(labels.shape[1], float(len(labels))) if weights is None else weights.sum(0, np.float64)

    def read(self, w: Floats) -> tuple[Floats, Floats, Floats]:
        """Return objectives [models], gradients [models, m + 1] and Hessians [models, m + 1, m + 1] at w."""
        models, m = len(w), self._rows.shape[1]
        value, gradient = np.zeros(models), np.zeros((models, m + 1))
        bend = np.zeros((models, m + 1, m + 1))
        origin = -(self._rows.mean / self._rows.spread)  # what standardised columns are where all columns are 0
        offset = w[:, m] if self._free else -w[:, :m] @ origin
        slim, offset = w[:, :m].T.astype(np.float32), offset.astype(np.float32)
        for part, tile in self._rows.tiles():
            scores = tile @ slim + offset
            for k in range(models):
                at = self._curve(scores[:, k], self._labels[part, k])
                if self._weights is not None:
                    at = Curve(*(each * self._weights[part, k] for each in at))
                value[k] += at.loss.sum(dtype=np.float64)
                gradient[k, :m] += at.slope @ tile
                gradient[k, m] += at.slope.sum(dtype=np.float64)
                root = np.sqrt(at.bend)
                scaled = tile * root[:, None]
                bend[k, :m, :m] += scaled.T @ scaled
                bend[k, m, :m] += root @ scaled
                bend[k, m, m] += at.bend.sum(dtype=np.float64)
        bend[:, :m, m] = bend[:, m, :m]
        value /= self._mass
        gradient /= self._mass[:, None]
        bend /= self._mass[:, None, None]
        if not self._free:
            gradient, bend = _without_intercept(gradient, bend, origin)
        value = value + 0.5 * (self._penalty * w * w).sum(axis=1)
        gradient = gradient + self._penalty * w
        bend[:, np.arange(m), np.arange(m)] += self._penalty[:m]
        return value, gradient, bend


def _without_intercept(gradient: Floats, bend: Floats, origin: Floats) -> tuple[Floats, Floats]:
    """Return gradients and Hessians of models whose intercept is ``-w @ origin``."""
    change = np.append(-origin, 0.0)
    change_of = np.eye(len(change))
    change_of[-1, -1] = 0.0
    change_of[-1, :-1] = change[:-1]
    return gradient @ change_of, change_of.T @ bend @ change_of


def _newton_step(bend: Floats, gradient: Floats) -> Floats:
    """Return ``-H**-1 g`` [m + 1], with a jitter for singular H."""
    jitter = JITTER * max(float(np.trace(bend)) / len(bend), 1e-300)
    while True:
        try:
            factor = np.linalg.cholesky(bend + jitter * np.eye(len(bend)))
        except np.linalg.LinAlgError:
            jitter *= 10
            continue
        return -np.linalg.solve(factor.T, np.linalg.solve(factor, gradient))
