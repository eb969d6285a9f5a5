"""L-BFGS for many models in step: passes without Hessians, for tables of many columns and few rows.

D. C. Liu and J. Nocedal, "On the limited memory BFGS method for large scale optimization", Mathematical Programming 45
(1989). The first metric is diagonal, about the means of the columns, so that neither scales nor offsets matter.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from bitlane.encoded.coded_rows import Floats

from .certificate import bound_of_gradient
from .coded_objective import Chosen, CodedObjective, Evaluation
from .sampled_hessian import HessianSample
from .sampled_newton import FLOOR, NOISE

KEPT_PAIRS = 10  # of steps and differences of gradients
LOOKED_AT = 1_024  # rows that the first metric is of
SUFFICIENT = 1e-4  # of what a slope promises, that a step has to gain
SHORTEST, LONGEST = 0.1, 0.5  # of a step that was not accepted, as a share
MOST_SHORTER = 20  # trials in one direction
# Products in the time of one in a pass: of codes in a Gram matrix, and of floats in the solution of a system.
OF_CODES, OF_FLOATS = 25.0, 5.0
MOST_PASSES = 4  # that a step of Newton's method may take as long as
ENOUGH = 10  # such steps, in whose time this search ends


def passes_of_newton(objective: CodedObjective) -> float:
    """Return about how many passes take as long as one Hessian of sampled rows and a system with it."""
    rows, columns = objective.rows.shape
    wanted = HessianSample(rows, columns).wanted
    return float(columns * (wanted / 2 / OF_CODES + columns / 3 / OF_FLOATS) / (2 * rows))


def suits(objective: CodedObjective) -> bool:
    """Return whether passes without Hessians are the quicker way: where these take long, and there is a bound."""
    columns, loss = objective.rows.shape[1], objective.smooth_loss.name
    strong = bool((objective.penalty.ridge[:, :columns] > 0).all()) and objective.penalty.smooth
    return loss != "hinge" and strong and passes_of_newton(objective) > MOST_PASSES


class QuasiNewton:
    """L-BFGS for many models with an L2 penalty and a loss with second derivatives.

    It ends where `bound_of_gradient` is within the tolerance.

    Parameters
    ----------
    objective : CodedObjective
    points : float64 array [models, n]
        Where the models start. They are moved.
    near : float64 array [models, n], optional
        Where the models start if that is better than `points`, which then are the best constant models.

    Attributes
    ----------
    points, objectives, gradients, estimates, floors, slope_sums, slope_sizes, iterations
        As those of `SampledNewton`.
    decrements, first_decrements, first_estimates, first_bounds : float64 arrays [models]
        The bound where the models are, and the others where they started.
    """

    def __init__(self, objective: CodedObjective, points: Floats, near: Floats | None = None):
        count, n = points.shape
        self.objective, self.points, self._near = objective, points, near
        self.objectives, self.decrements, self.first_decrements = np.full((3, count), np.inf)
        self.floors, self.slope_sums, self.slope_sizes = np.zeros((3, count))
        self.gradients, self._steps = np.zeros((2, count, n))
        self._lengths, self._trials, self.iterations = np.ones(count), np.zeros(count, np.intp), 0
        self._pairs = [deque[tuple[Floats, Floats, float]](maxlen=KEPT_PAIRS) for _ in range(count)]
        rows, columns = objective.rows.shape
        self._looked_at = np.arange(0, rows, max(1, rows // LOOKED_AT), dtype=np.intp)
        self._means, self._squares = np.zeros((2, columns))

    @property
    def estimates(self) -> Floats:
        """What the optimum may be below the objectives."""
        return self.decrements

    @property
    def first_estimates(self) -> Floats:
        """What the optimum may be below the objectives at the start."""
        return self.first_decrements

    first_bounds = first_estimates

    def run(self, active: Chosen, tolerances: Floats, max_passes: int, anew: bool = True) -> None:
        """Search until the bounds of some models are within their tolerances, or no step helps.

        Parameters
        ----------
        active : int array
            Numbers of the models.
        tolerances : float64 array [models]
            Shares of the objectives, or of `floors` where these are more.
        max_passes : int
            Of the objective in all.
        anew : bool, default=True
            Whether this is the first run.
        """
        trials = self.points + self._lengths[:, None] * self._steps
        if anew:
            trials = self.points.copy()
        if self._near is not None:
            trials, self._near = self._near, None
            self.objectives[:] = self.objective.models.constant_losses(self.objective.smooth_loss)
            self.floors = FLOOR * self.objectives
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
        first = np.isinf(self.first_decrements[k])
        if not first:
            step, change = point - self.points[k], found.gradients[at] - self.gradients[k]
            if (product := float(step @ change)) > 0:
                self._pairs[k].append((step, change, product))
        else:
            self.floors[k] = max(self.floors[k], FLOOR * found.values[at])
        self.points[k], self.objectives[k], self.gradients[k] = point, found.values[at], found.gradients[at]
        self.slope_sums[k], self.slope_sizes[k] = found.slope_sums[at], found.slope_sizes[at]
        curvature = float(self.objective.curvatures[k].sum(dtype=np.float64)) / self.objective.totals[k]
        self.decrements[k] = float(bound_of_gradient(found.gradients[at], self.objective.penalty.ridge[k], curvature))
        if first:
            self.first_decrements[k] = self.decrements[k]
        self._steps[k], self._lengths[k], self._trials[k] = -self._of_metric(k, curvature), 1.0, 0

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
