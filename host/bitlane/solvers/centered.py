"""Many linear models at their optimum from one table of coded rows: full gradients, Hessians of sampled rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitlane.encoded.coded_rows import CodedRows, Floats

from .coded_objective import Chosen, CodedObjective
from .linear_models import LinearModels
from .penalty import least_model
from .sampled_hessian import HessianSample

SHORTEST = 2.0**-12  # of a step, as a share
NOISE = 1e-9  # of an objective: what passes round
JITTER = 1e-9  # of the diagonal of a Hessian


@dataclass(frozen=True, eq=False)
class CenteredFit:
    """Fitted models.

    Attributes
    ----------
    coefficients : float64 array [models, m]
        Of the values of the stored columns, in user units.
    intercepts : float64 array [models]
    objectives : float64 array [models]
        On the coded rows.
    estimates : float64 array [models]
        Of what the objective is above its optimum: what the last model of second order promised.
    converged : bool array [models]
        Whether the estimate is within the tolerance.
    iterations, passes, bytes_read : int
        Passes count how often all rows were read, for all models together.
    """

    coefficients: Floats
    intercepts: Floats
    objectives: Floats
    estimates: Floats
    converged: np.ndarray
    iterations: int
    passes: int
    bytes_read: int


def solve_centered(
    rows: CodedRows, models: LinearModels, tol: float = 1e-4, max_passes: int = 100, threads: int = 1
) -> CenteredFit:
    """Minimise the objectives of many models over the same rows.

    Each iteration reads the rows once, for all models that are not finished: it takes exact losses and gradients of the
    coded rows, and the codes of a few rows for the Hessians of the next step.

    Parameters
    ----------
    rows : CodedRows
    models : LinearModels
        From `linear_models`.
    tol : float, default=1e-4
        How far above its optimum an objective may end, as a share of it.
    max_passes : int, default=100
    threads : int, default=1

    Returns
    -------
    CenteredFit
    """
    objective = CodedObjective(rows, models, threads)
    search = NewtonSearch(objective, _start(objective))
    search.run(np.full(len(models), tol), max_passes)
    coefficients, intercepts = objective.coefficients(search.points)
    return CenteredFit(
        coefficients,
        intercepts,
        search.objectives,
        search.decrements,
        search.decrements <= tol * np.abs(search.objectives),
        search.iterations,
        objective.passes,
        objective.passes * rows.shape[0] * -(-rows.shape[1] * rows.bits // 8),
    )


def _start(objective: CodedObjective) -> Floats:
    """Return the best constant models."""
    models = objective.models
    points = np.zeros(objective.penalty.ridge.shape)
    if models.intercept:
        means, squares = models.label_moments()
        totals = np.c_[objective.totals, squares * objective.totals]
        points[:, -1], _ = models.smooth_loss.constant(totals, means)
    return points


class NewtonSearch:
    """Newton's method for many models in step, with Hessians of sampled rows; a step that does not help is halved.

    Attributes
    ----------
    points : float64 array [models, n]
    objectives : float64 array [models]
    gradients : float64 array [models, n]
        Without the L1 part of the penalty.
    decrements : float64 array [models]
        What the last step promised.
    iterations : int
    """

    def __init__(self, objective: CodedObjective, points: Floats):
        count = len(points)
        self.objective, self.points = objective, points
        self.objectives, self.decrements = np.full(count, np.inf), np.full(count, np.inf)
        self.gradients, self._steps = np.zeros_like(points), np.zeros_like(points)
        self._lengths, self.iterations = np.ones(count), 0
        self.sample = HessianSample(*objective.rows.shape)

    def run(self, tolerances: Floats, max_passes: int) -> None:
        """Search until each model's next step promises no more than its tolerance, a share of the objective."""
        active: Chosen = np.arange(len(self.points))
        trials = self.points.copy()
        weights = self.objective.models.row_weights
        self.sample.draw([np.ones(self.objective.rows.shape[0], np.float32)] if weights is None else list(weights))
        while active.size and self.objective.passes < max_passes:
            values, gradients, codes = self.objective.evaluate(trials[active], active, self.sample.kept)
            self.iterations += 1
            left = []
            for at, k in enumerate(active):
                if values[at] <= self.objectives[k] + NOISE * abs(self.objectives[k]):
                    self.points[k], self.objectives[k], self.gradients[k] = trials[k], values[at], gradients[at]
                    self._lengths[k] = 1.0
                    self._direct(int(k), codes)
                    if self.decrements[k] <= tolerances[k] * abs(self.objectives[k]):
                        continue
                else:
                    self._lengths[k] /= 4
                    if self._lengths[k] < SHORTEST:
                        continue
                trials[k] = self.points[k] + self._lengths[k] * self._steps[k]
                left.append(k)
            active = np.array(left, np.intp)
            if active.size:
                self.sample.draw([self.objective.curvatures[k] for k in active])

    def _direct(self, k: int, codes: np.ndarray) -> None:
        """Set the next step of a model, and what it promises."""
        hessian = self._hessian(k, codes)
        slope, lasso = self.gradients[k], self.objective.penalty.lasso[k]
        if lasso.any():
            point = self.objective.whole(self.points[k : k + 1], np.array([k]))[0]
            step = least_model(hessian, slope, point, lasso)
            change = (lasso * (np.abs(point + step) - np.abs(point))).sum()
        else:
            step, change = -np.linalg.solve(hessian, slope), 0.0
        self._steps[k] = step
        self.decrements[k] = -(slope @ step + 0.5 * step @ hessian @ step + change)

    def _hessian(self, k: int, codes: np.ndarray) -> Floats:
        objective = self.objective
        moments = self.sample.moments(codes, objective.curvatures[k]) / objective.totals[k]
        if objective.models.intercept:
            hessian = moments
        else:
            sides = np.outer(objective.middles, moments[-1, :-1])
            hessian = moments[:-1, :-1] + sides + sides.T
            hessian += moments[-1, -1] * np.outer(objective.middles, objective.middles)
        hessian[np.diag_indices_from(hessian)] += objective.penalty.ridge[k]
        diagonal = np.diagonal(hessian)
        hessian[np.diag_indices_from(hessian)] += JITTER * np.maximum(diagonal, JITTER * diagonal.max() + 1e-300)
        return np.asarray(hessian)
