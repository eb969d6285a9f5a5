"""L-BFGS for many models in step: passes without Hessians, for tables of many columns and few rows.

D. C. Liu and J. Nocedal, "On the limited memory BFGS method for large scale optimization", Mathematical Programming 45
(1989). The first metric is diagonal, about the means of the columns, so that neither scales nor offsets matter.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from bitlane.encoded.coded_rows import Floats

from .coded_objective import Chosen, CodedObjective, Evaluation
from .model_search import NOISE, ModelSearch
from .sampled_hessian import sample_size

KEPT_PAIRS = 10  # of steps and differences of gradients
LOOKED_AT = 1_024  # rows that the first metric is of
SUFFICIENT = 1e-4  # of what a slope promises, that a step has to gain
SHORTEST, LONGEST = 0.1, 0.5  # of a step that was not accepted, as a share
MOST_SHORTER = 20  # trials in one direction
# Products in the time of one in a pass: of codes in a Gram matrix, and of floats in the solution of a system.
OF_CODES, OF_FLOATS = 25.0, 5.0
MOST_PASSES = 4  # that a step of Newton's method may take as long as
ENOUGH = 10  # such steps, in whose time this search ends


def passes_of_newton(rows: int, columns: int) -> float:
    """Return about how many passes take as long as one Hessian of sampled rows and a system with it."""
    wanted = sample_size(rows, columns)
    return columns * (wanted / 2 / OF_CODES + columns / 3 / OF_FLOATS) / (2 * rows)


def suits(objective: CodedObjective) -> bool:
    """Return whether passes without Hessians are the quicker way: where these take long, and there is a bound."""
    columns, loss = objective.rows.shape[1], objective.smooth_loss.name
    strong = bool((objective.penalty.ridge[:, :columns] > 0).all()) and objective.penalty.smooth
    return loss != "hinge" and strong and passes_of_newton(*objective.rows.shape) > MOST_PASSES


class QuasiNewton(ModelSearch):
    """L-BFGS for many models with an L2 penalty and a loss with second derivatives.

    It ends where `bound_of_gradient`, which is decrement and estimate, is within the tolerance, or no step helps.

    Parameters
    ----------
    objective, points, near
        As of `ModelSearch`.
    """

    def __init__(self, objective: CodedObjective, points: Floats, near: Floats | None = None):
        super().__init__(objective, points, near)
        self._trials = np.zeros(len(points), np.intp)
        self._pairs = [deque[tuple[Floats, Floats, float]](maxlen=KEPT_PAIRS) for _ in range(len(points))]
        rows, columns = objective.rows.shape
        self._looked_at = np.arange(0, rows, max(1, rows // LOOKED_AT), dtype=np.intp)
        self._means, self._squares = np.zeros((2, columns))

    def run(self, active: Chosen, tolerances: Floats, max_passes: int, anew: bool = True) -> None:
        trials = self._start(active, self.points + self._lengths[:, None] * self._steps, anew)
        while active.size and self.objective.passes < max_passes:
            with np.errstate(over="ignore", invalid="ignore"):
                found = self.objective.evaluate(trials[active], active, self._looked_at)
            if self._looked_at.size:
                self._look_at(found)
            self.iterations += 1
            left = []
            for at, k in enumerate(active.tolist()):
                if self._helps(k, trials[k], float(found.values[at])):
                    self._accept(k, trials[k], at, found)
                    if self.decrements[k] <= tolerances[k] * max(self.objectives[k], self.floors[k]):
                        continue
                elif not self._shorten(k, float(found.values[at])):
                    continue
                trials[k] = self.points[k] + self._lengths[k] * self._steps[k]
                left.append(k)
            active = np.array(left, np.intp)

    def _look_at(self, found: Evaluation) -> None:
        """Set the means and mean squares of the columns, from some rows of the first pass."""
        codes = found.codes.astype(np.float32)
        self._means = codes.mean(axis=0, dtype=np.float64)
        most = 2.0 ** (2 * self.objective.rows.bits - 2)  # what a code may be off its mean, in a row that was not seen
        self._squares = codes.var(axis=0, dtype=np.float64) + most / len(codes)
        self._looked_at = self._looked_at[:0]

    def _helps(self, k: int, trial: Floats, value: float) -> bool:
        slope = float(self.gradients[k] @ (trial - self.points[k])) if np.isfinite(self.first_decrements[k]) else 0.0
        return bool(np.isfinite(value) and value <= self.objectives[k] + SUFFICIENT * slope + NOISE * abs(value))

    def _shorten(self, k: int, value: float) -> bool:
        """After a trial that does not help, set a shorter step, to the least value of a parabola. False: none."""
        self._trials[k] += 1
        if np.isinf(self.first_decrements[k]):  # the best constant model is better
            self.objectives[k], self._lengths[k] = np.inf, 0.0
            return int(self._trials[k]) == 1
        slope = float(self.gradients[k] @ self._steps[k]) * self._lengths[k]
        rise = value - self.objectives[k] - slope
        share = -slope / (2 * rise) if np.isfinite(rise) and rise > 0 else SHORTEST
        self._lengths[k] *= min(max(share, SHORTEST), LONGEST)
        return int(self._trials[k]) <= MOST_SHORTER

    def _accept(self, k: int, point: Floats, at: int, found: Evaluation) -> None:
        """Move a model to a point, and set its bound and its next step."""
        start, slope = self.points[k].copy(), self.gradients[k].copy()
        first = self._move(k, point, at, found)
        step, change = point - start, self.gradients[k] - slope
        if not first and (product := float(step @ change)) > 0:
            self._pairs[k].append((step, change, product))
        self.decrements[k] = self.estimates[k] = self._bound(k)
        if first:
            self.first_decrements[k] = self.first_estimates[k] = self.first_bounds[k] = self.decrements[k]
        self._steps[k] = -self._of_metric(k, self._mean_curvature(k))
        self._lengths[k], self._trials[k] = 1.0, 0

    def _of_metric(self, k: int, curvature: float) -> Floats:
        """Return the product of the inverse metric of a model and its gradient, by the two loops of the paper."""
        slope, shares = self.gradients[k].copy(), []
        for step, change, product in reversed(self._pairs[k]):
            shares.append(float(step @ slope) / product)
            slope -= shares[-1] * change
        found = self._first_metric(k, slope, curvature)
        if self._pairs[k]:
            _, change, product = self._pairs[k][-1]
            found *= product / float(change @ self._first_metric(k, change, curvature))
        for (step, change, product), share in zip(self._pairs[k], reversed(shares), strict=True):
            found += (share - float(change @ found) / product) * step
        return found

    def _first_metric(self, k: int, slope: Floats, curvature: float) -> Floats:
        """Return the product of the inverse of the first metric and a slope: of columns that do not go together."""
        columns = len(self._means)
        least = max(curvature, 1e-12)
        diagonal = least * self._squares + self.objective.penalty.ridge[k, :columns]
        if self.objective.models.intercept:
            of_columns = (slope[:columns] - self._means * slope[-1]) / diagonal
            return np.append(of_columns, slope[-1] / least - self._means @ of_columns)
        means, found = self._means + self.objective.middles, slope / diagonal
        return np.asarray(found - means / diagonal * (means @ found) / (1 / least + means @ (means / diagonal)))
