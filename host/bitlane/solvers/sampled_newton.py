"""Newton's method for many models in step, with Hessians of sampled rows."""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np

from bitlane.encoded.coded_rows import Codes, Floats

from .coded_objective import Chosen, CodedObjective, Evaluation
from .coordinates import least_model
from .model_search import NOISE, ModelSearch
from .reference_pass import Singles
from .sampled_hessian import HessianSample

SHORTER = 4  # a step that does not help is divided by this
SHORTEST = 2.0**-20  # of a step, as a share
TINY = 1e-9  # of an objective
STALLED = 4  # a tiny promise that falls by less is the last
# Of a Hessian: a share of its diagonal is added, and of that of a loss with second derivative 1. Hinge has none outside
# its smooth part.
DAMPING, HINGE_DAMPING = 1e-9, 1e-7
# What a sample does not see of a column: the curvature of one of its rows at the end of the range. So a column that
# differs in rows outside the sample alone does not take a huge step. A step that does not help is computed anew with
# more of it; after a step that keeps or breaks its promise it is less or more (the rule of Levenberg and Marquardt).
# With `SEEN`, the promise of a step tells how far the optimum is.
UNSEEN, LEAST_UNSEEN, SEEN, MOST_UNSEEN = 1.0, 2.0**-12, 2.0**-6, 2.0**40
FAILED, WORSE, BETTER = 16.0, 4.0, 0.25  # factors
KEPT, BROKEN = 0.75, 0.25  # of a promise
ROUNDED = 4.0  # times what rounds values, that is taken off a Hessian of codes
SINGULAR = 1e-7  # least eigenvalue of a Hessian with a diagonal of 1: the rounding of float32
# Of hinge: margins around 1 within which rows count for a Hessian. More than those of the smooth part, as a step moves
# rows across it; less after each step that helps.
FIRST_REACH = 1.0
LESS_REACH = math.sqrt(2)


class SampledNewton(ModelSearch):
    """Newton's method for many models in step; a step that does not help is damped more, or shortened.

    Parameters
    ----------
    objective, points, near
        As of `ModelSearch`.
    reach : float or float64 array [models], default=1.0
        Of hinge: margins around 1 within which rows count for the first Hessian.
    rounding : float64 array [m], optional
        About the mean squares of what codes are off values that have the gradient where the models start, in units of
        codes. Then `first_estimates` are of these values.
    """

    def __init__(
        self,
        objective: CodedObjective,
        points: Floats,
        reach: Floats | float = FIRST_REACH,
        near: Floats | None = None,
        rounding: Floats | None = None,
    ):
        super().__init__(objective, points, near)
        count, self._rounding = len(points), rounding
        self._reaches = np.full(count, 0.0) + reach
        self._scores = [np.empty(0, np.float32)] * count
        # Rows, their weights, and the mean curvature of all rows: of each model less than its Hessian.
        self._samples: dict[int, tuple[Codes, Singles, float]] = {}
        self._sample = HessianSample(*objective.rows.shape, objective.threads)
        self._unseen = np.full(count, UNSEEN if self._sample.wanted < objective.rows.shape[0] else 0.0)
        self._sizes = np.full(objective.rows.shape[1] + 1, 2.0 ** (2 * objective.rows.bits - 4))  # squares of codes
        self._sizes[-1] = 1.0
        weights = objective.models.row_weights
        self._sample.draw([np.ones(objective.rows.shape[0], np.float32)] if weights is None else list(weights))

    def run(self, active: Chosen, tolerances: Floats, max_passes: int, anew: bool = True) -> None:
        far = self._near is not None
        errors = np.errstate(over="ignore", invalid="ignore") if far else nullcontext()
        trials = self._start(active, self.points + self._steps, anew)
        self._lengths[active], last = 1.0, np.full(len(self.points), np.inf)
        while active.size and self.objective.passes < max_passes:
            with errors:
                found = self.objective.evaluate(trials[active], active, self._sample.kept, self._reaches[active])
            errors = nullcontext()
            self.iterations += 1
            helps = found.values <= self.objectives[active] + NOISE * np.abs(found.values)
            helps &= np.isfinite(found.values)
            curvatures = [self.objective.curvatures[k] for k in active[helps]]
            weights = self._sample.weights(curvatures)
            if not helps.all():
                self._sample.grow()
            left = []
            for at, k in enumerate(active):
                if helps[at]:
                    self._accept(int(k), trials[k], at, found, next(weights))
                    size = max(self.objectives[k], self.floors[k])
                    stalled = last[k] / STALLED < self.decrements[k] <= TINY * size
                    last[k] = self.decrements[k]
                    if stalled or self._estimate(int(k), tolerances[k] * size) <= tolerances[k] * size:
                        continue
                elif int(k) not in self._samples:  # the best constant model is better
                    self.objectives[k], self.objective.curvatures[k][:] = np.inf, 1.0
                elif not self._shorten(int(k), trials[k]):
                    continue
                trials[k] = self.points[k] + self._lengths[k] * self._steps[k]
                left.append(k)
            active = np.array(left, np.intp)
            if active.size:
                self._sample.draw([self.objective.curvatures[k] for k in active])

    def _shorten(self, k: int, trial: Floats) -> bool:
        """After a trial that does not help, set a shorter step, of hinge the best length first. False: none."""
        if self._lengths[k] == 1 and self.objective.scores is not None and len(self._scores[k]):
            step = trial - self.points[k]
            self._lengths[k] = self.objective.best_length(k, self._scores[k], self.points[k], step)
        elif self._unseen[k]:
            self._lengths[k] = 1.0
            self._unseen[k] *= FAILED
            self._set_step(k)
        else:
            self._lengths[k] = self._lengths[k] / SHORTER if self._lengths[k] > SHORTEST else 0.0
        return bool(self._lengths[k] and self._unseen[k] <= MOST_UNSEEN)

    def _accept(self, k: int, point: Floats, at: int, found: Evaluation, weights: Singles) -> None:
        """Move a model to a point, and set its next step and what that promises."""
        gain, promise = self.objectives[k] - found.values[at], self.decrements[k]
        first = self._move(k, point, at, found)
        self._reaches[k] = max(self._reaches[k] / LESS_REACH, self.objective.smooth_loss.width)
        if self.objective.scores is not None:
            self._scores[k] = self.objective.scores[k].copy()
        if self._unseen[k]:
            kept = first or np.isinf(gain) or gain >= KEPT * promise or promise < NOISE * abs(found.values[at])
            factor = BETTER if kept else WORSE if gain < BROKEN * promise else 1.0
            self._unseen[k] = max(LEAST_UNSEEN, self._unseen[k] * factor)
        self._lengths[k] = 1.0
        self._samples[k] = found.codes, weights, self._mean_curvature(k)
        self._set_step(k)
        if first:
            self.first_decrements[k] = self.first_estimates[k] = self.decrements[k]
            if self._rounding is not None:
                self.first_estimates[k] = self._on_values(k, self._rounding)
            if self.objective.smooth_loss.name != "hinge" and not self.objective.penalty.lasso[k].any():
                self.first_bounds[k] = self._bound(k)

    def _set_step(self, k: int) -> None:
        """Set the next step of a model from its sample of rows, and what it promises."""
        self._steps[k], self.decrements[k] = self._step(k, self._unseen[k])

    def _estimate(self, k: int, enough: float) -> float:
        """Set and return what the optimum may be below the objective of a model; above `enough` a lower bound of it."""
        self.estimates[k] = self.decrements[k]
        if self.estimates[k] <= enough and self._unseen[k] > SEEN:
            self.estimates[k] = self._step(k, SEEN)[1]
        return float(self.estimates[k])

    def _step(self, k: int, unseen: float) -> tuple[Floats, float]:
        """Return the step of a model from its sample of rows, and what it promises; infinite where that rounds."""
        hessian, slope = self._hessian(k, unseen), self.gradients[k]
        lasso = self.objective.penalty.lasso[k]
        if lasso.any():
            whole = self.objective.whole(self.points[k : k + 1], np.array([k]))[0]
            step = least_model(hessian, slope, whole, lasso)
            change = (lasso * (np.abs(whole + step) - np.abs(whole))).sum()
        else:
            step, change = -np.linalg.solve(hessian, slope), 0.0
        promised = -float(slope @ step + 0.5 * step @ hessian @ step + change)
        return step, promised if promised >= 0 else math.inf

    def _on_values(self, k: int, rounding: Floats) -> float:
        """Return what the optimum on values may be below the objective, whose gradient is that of the values.

        A Hessian of codes is that of the values and of what rounds them, which is the larger part where columns are
        nearly combinations of others. That of the values is not below the penalty.
        """
        penalty = self.objective.penalty.of(np.array([k]))
        whole = self.objective.whole(self.points[k : k + 1], np.array([k]))
        slopes = penalty.residual(whole, self.gradients[k] - penalty.ridge * whole)[0]
        moved = np.flatnonzero((whole[0] != 0) | (slopes != 0))  # the others stay at 0, by an L1 penalty
        if not moved.size:
            return 0.0
        hessian = self._hessian(k, min(float(self._unseen[k]), SEEN))[np.ix_(moved, moved)]
        noise = np.zeros(len(slopes))
        noise[: len(rounding)] = ROUNDED * self._samples[k][2] * rounding
        diagonal = np.diagonal(hessian)
        size = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        scaled, noise, slopes = hessian / np.outer(size, size), noise[moved] / size**2, slopes[moved] / size
        try:
            np.linalg.cholesky(scaled - np.diag(noise))
        except np.linalg.LinAlgError:
            curvatures, directions = np.linalg.eigh(scaled)
            squares = directions**2
            least = np.maximum((penalty.ridge[0, moved] / size**2) @ squares, SINGULAR)
            curvatures = np.maximum(curvatures - noise @ squares, least)
            return float(((slopes @ directions) ** 2 / curvatures).sum() / 2)
        return float(slopes @ np.linalg.solve(scaled - np.diag(noise), slopes)) / 2

    def _hessian(self, k: int, unseen: float) -> Floats:
        objective = self.objective
        codes, weights, curvature = self._samples[k]
        moments = self._sample.moments(codes, weights) / objective.totals[k]
        if objective.models.intercept:
            hessian = moments
        else:
            sides = np.outer(objective.middles, moments[-1, :-1])
            hessian = moments[:-1, :-1] + sides + sides.T
            hessian += moments[-1, -1] * np.outer(objective.middles, objective.middles)
        hessian[np.diag_indices_from(hessian)] += objective.penalty.ridge[k]
        least = (HINGE_DAMPING if objective.smooth_loss.name == "hinge" else DAMPING) * self._sizes
        if unseen:
            least[:-1] += unseen * curvature / self._sample.wanted * self._sizes[:-1]
        hessian[np.diag_indices_from(hessian)] += DAMPING * np.diagonal(hessian) + least[: len(hessian)]
        return np.asarray(hessian)
