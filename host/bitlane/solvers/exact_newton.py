"""Newton's method on exact rows, from the optimum of some of them or a given one: few reads of a large table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .centered import warn_of_separable
from .certificate import bound_of_gradient
from .coded_tables import stored_bytes
from .exact_sums import ExactSums, RowSums
from .losses import SmoothLoss
from .problem import Problem
from .reference_pass import Singles
from .solution import Floats, Solution
from .standard_rows import LOOKED_AT, ColumnSpread, StandardRows, spread_of

MOST_STEPS = 100
FLOOR = 1e-3  # of the objective of the best constant model: below it, an objective is as good as 0
JITTER = 1e-7  # of a diagonal, that keeps a singular matrix solvable: the rounding of float32
BLIND = 1e-5  # least eigenvalue of a Hessian with a diagonal of 1, above the rounding of float32 sums
MOST_LOST = 0.5  # of a Hessian, in any direction, on the way from its point to the optimum
ROUNDS = 6  # of tolerances, each a tenth of the one before
HALVINGS, FEW_HALVINGS = 30, 2  # of a step; from the optimum of a sample that says too little, it is begun anew
RISE = 1e-6  # of an objective, that rounding of float32 explains
NEAR = 0.02  # of an objective: with a smaller excess a Hessian serves for the next point, too
FAR = 0.1  # of an objective: from a start with a larger excess, samples of the rows are quicker
SLOW = 1 / 4  # of an excess: a Hessian that leaves more of it after a step is computed anew
AIM = 0.1  # of a tolerance: what is aimed at, as long as steps are not slow
# Samples of the rows: each has so many times the rows of the one before, and so many at least, also for each column.
GROWTH, LEAST_ROWS, ROWS_A_COLUMN = 8, 1_024, 16
WORTH = 4  # a sample has no more than one of so many rows
NOISE = 0.1  # of what the optimum of a sample is above that of all rows: as far as a sample is solved
SAMPLE_STEPS = 15
MOST_HESSIANS = 1 << 24  # values of the Hessians of all models


class NewtonFit(NamedTuple):
    """Where Newton's method ended, for each set and target.

    Attributes
    ----------
    points : float64 array [sets, targets, n]
    row_sums : RowSums
        The sums there; without Hessians, if those of a point before served.
    values, gaps : float64 arrays [sets, targets]
        Objectives, and half of the squared Newton decrements: about what they are above their least values, if the
        Hessian changes little up to the optimum.
    converged : bool array [sets, targets]
        Whether the gap is within the tolerance.
    steps : int
    hessians : float64 array [sets, targets, n, n]
    of_hessians : float64 array [sets, targets, n], or None
        Their points: the last ones, or others before them; None if they are of other rows.
    """

    points: Floats
    row_sums: RowSums
    values: Floats
    gaps: Floats
    converged: NDArray[np.bool_]
    steps: int
    hessians: Floats
    of_hessians: Floats | None


@dataclass(frozen=True, eq=False)
class NewtonModels:
    """What Newton's method minimises: mean losses over parts of the rows plus penalties, for each set and each target.

    Attributes
    ----------
    sums : ExactSums
    fitted : bool array [sets, parts]
        The parts of the rows that the models of a set are fitted to.
    ridge : float64 array [n]
        Of the penalty ``sum(ridge / 2 * point**2)``.
    floors : float64 array [targets]
        Objectives that are as good as 0.
    """

    sums: ExactSums
    fitted: NDArray[np.bool_]
    ridge: Floats
    floors: Floats

    def minimise(
        self,
        points: Floats,
        tol: float,
        most: int = MOST_STEPS,
        spare: float = 0.0,
        row_sums: RowSums | None = None,
        hessians: Floats | None = None,
        halvings: int = HALVINGS,
        near: float = 0.0,
    ) -> NewtonFit:
        """Minimise all objectives in step; a step that does not help is halved, and the search ends if none does.

        Parameters
        ----------
        points : float64 array [sets, targets, n]
            Where the search starts.
        tol : float
            Share of an objective, or of its floor if that is more, that may be left.
        most : int
            Steps at most.
        spare : float, default=0.0
            What may be left at least.
        row_sums : RowSums, optional
            The sums at the start, if they are known; one set of them is for all sets.
        hessians : float64 array [sets, targets, n, n], optional
            Of a sample of the rows, to begin with; by default they are those at the start.
        halvings : int, default=HALVINGS
            Of a step that does not help.
        near : float, default=0.0
            Share of an objective: with a smaller excess a Hessian serves for the next point, too. With 0, the sums at
            the end have Hessians.
        """
        if row_sums is None or (hessians is None and row_sums.hessians is None):
            row_sums = self.sums.read(points, hessians is None)
        values, gradients = self.objectives(points, row_sums)
        of_hessians = None
        if hessians is None:
            hessians, of_hessians = self.hessians(row_sums), points
        steps, gaps = newton_steps(hessians, gradients)
        slow = stalled = False
        for taken in range(most + 1):
            sizes = np.maximum(values, self.floors)
            converged = gaps <= np.maximum(tol * sizes, spare)
            left = ~converged if stalled else gaps > np.maximum(AIM * tol * sizes, spare)
            if taken == most or not left.any() or not np.isfinite(gaps).all():
                break
            anew = slow or bool((gaps > near * sizes)[left].any())
            lengths = left.astype(np.float64)
            for _ in range(halvings + 1):
                tried = points + lengths[..., None] * steps
                row_sums = self.sums.read(tried, anew)
                tried_values, gradients = self.objectives(tried, row_sums)
                rose = ~(tried_values <= values * (1 + RISE))
                if not rose.any():
                    break
                if of_hessians is points:
                    lengths[rose] /= 2
                    continue
                row_sums = self.sums.read(points)
                hessians, of_hessians = self.hessians(row_sums), points
                steps, gaps = newton_steps(hessians, self.objectives(points, row_sums)[1])
            if rose.any():
                break
            points, values = tried, tried_values
            if anew:
                hessians, of_hessians = self.hessians(row_sums), tried
            before = gaps
            steps, gaps = newton_steps(hessians, gradients)
            slow = bool((gaps > SLOW * before)[left].any())
            stalled = slow and anew
        return NewtonFit(points, row_sums, values, gaps, converged, taken, hessians, of_hessians)

    def made_reliable(self, fit: NewtonFit, tol: float, most: int = MOST_STEPS) -> NewtonFit:
        """Return a fit of the only set; where its gaps are not reliable, it is continued with smaller tolerances.

        If they are still not reliable then, each is what bounds it: the gradient beside the penalty, or the whole
        objective, which cannot fall by more.
        """
        wanted = tol
        for _ in range(ROUNDS):
            bounds = self._bounds(fit)
            proved = reliable = bounds <= tol * np.maximum(fit.values, self.floors)
            if proved.all():
                break
            if fit.of_hessians is not None:
                reliable = proved | self._reliable(fit, fit.of_hessians)
                if reliable.all() or not fit.converged.all():
                    break
                wanted /= 10
            more = self.minimise(fit.points, wanted, most - fit.steps, row_sums=fit.row_sums)
            fit = more._replace(steps=fit.steps + more.steps)
        estimated = (reliable & ~proved) | ~np.isfinite(fit.gaps)
        gaps = np.where(estimated, fit.gaps, np.minimum(fit.values, bounds))
        return fit._replace(gaps=gaps, converged=gaps <= tol * np.maximum(fit.values, self.floors))

    def _bounds(self, fit: NewtonFit) -> Floats:
        """Return what the objectives are above their optimum at most, [sets, targets]; infinite without a penalty."""
        gradients = self.objectives(fit.points, fit.row_sums)[1]
        return bound_of_gradient(gradients, self.ridge, fit.hessians[..., -1, -1])

    def _reliable(self, fit: NewtonFit, of_hessians: Floats) -> NDArray[np.bool_]:
        """Return whether gaps [1, targets] say how far the optimum is, after one more read.

        They do if the Hessian is not nearly singular, and keeps enough of itself on the way from its point to the end
        of a step. Beside an outlier it may not: a direction has the second derivative of one row only, which falls.
        """
        steps, gaps = newton_steps(fit.hessians, self.objectives(fit.points, fit.row_sums)[1])
        if not np.isfinite(gaps).all():
            return np.zeros(gaps.shape, np.bool_)
        scaled, size = _scaled(fit.hessians)
        others = [fit.points + steps] if of_hessians is fit.points else [fit.points, fit.points + steps]
        lost = self.sums.lost_curvature(of_hessians[0], [each[0] for each in others])
        lost = lost / self._totals[..., None, None] / (size[..., :, None] * size[..., None, :])
        return np.asarray(np.linalg.eigvalsh(scaled - lost / MOST_LOST)[..., 0] >= BLIND)

    def objectives(self, points: Floats, row_sums: RowSums) -> tuple[Floats, Floats]:
        """Return values [sets, targets] and gradients [sets, targets, n] of the objectives."""
        gradients = self._of_sets(row_sums.gradients) / self._totals[..., None]
        values = self.mean_losses(row_sums) + 0.5 * (self.ridge * points**2).sum(axis=2)
        return values, gradients + self.ridge * points

    def mean_losses(self, row_sums: RowSums) -> Floats:
        """Return the mean losses over the rows of each set, [sets, targets]."""
        return np.asarray(self._of_sets(row_sums.values) / self._totals)

    @cached_property
    def _totals(self) -> Floats:
        return np.asarray(self.fitted @ self.sums.totals)

    def hessians(self, row_sums: RowSums) -> Floats:
        """Return the Hessians of the objectives, [sets, targets, n, n]."""
        assert row_sums.hessians is not None
        hessians = self._of_sets(row_sums.hessians) / self._totals[..., None, None]
        each = np.arange(len(self.ridge))
        hessians[..., each, each] += self.ridge
        return np.asarray(hessians)

    def _of_sets(self, of_parts: Floats) -> Floats:
        """Return sums [parts, sets, ...] or [parts, 1, ...] over the parts of each set, [sets, ...]."""
        if of_parts.shape[1] == 1:
            flat = self.fitted @ of_parts.reshape(len(of_parts), -1)
            return np.asarray(flat.reshape(-1, *of_parts.shape[2:]))
        return np.stack([of_parts[mask, at].sum(axis=0) for at, mask in enumerate(self.fitted)])


def newton_steps(hessians: Floats, gradients: Floats) -> tuple[Floats, Floats]:
    """Return ``-H**-1 g`` [..., n] and ``g H**-1 g / 2`` [...], with a jitter for singular H.

    Where a number is not finite, the steps are 0 and the latter is not finite.
    """
    if not (np.isfinite(hessians).all() and np.isfinite(gradients).all()):
        return np.zeros_like(gradients), np.full(gradients.shape[:-1], np.inf)
    scaled, size = _scaled(hessians)
    steps = -np.linalg.solve(_definite(scaled), (gradients / size)[..., None])[..., 0] / size
    return steps, -(steps * gradients).sum(axis=-1) / 2


def _scaled(hessians: Floats) -> tuple[Floats, Floats]:
    """Return Hessians [..., n, n] in units in which the diagonal is 1, and these units [..., n]."""
    diagonal = np.diagonal(hessians, axis1=-2, axis2=-1)
    size = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    return hessians / (size[..., :, None] * size[..., None, :]), size


def _definite(scaled: Floats) -> Floats:
    """Return matrices [..., n, n] with the least jitter that makes them positive definite."""
    jitter = JITTER
    while True:
        definite: Floats = scaled + jitter * np.eye(scaled.shape[-1])
        try:
            np.linalg.cholesky(definite)
        except np.linalg.LinAlgError:
            jitter *= 10
            continue
        return definite


def newton_models(
    problem: Problem, rows: StandardRows, targets: Singles, weights: Singles | None
) -> tuple[NewtonModels, Floats]:
    """Return the models of a problem on all parts of some rows, and the best constant points [1, targets, n]."""
    loss, free = SmoothLoss(problem.loss), problem.fit_intercept
    means = np.average(targets.astype(np.float64), axis=0, weights=weights)
    constants = loss.constant(means) if free else np.zeros(len(means))
    floors = FLOOR * loss.of_constants(constants, means)
    sums = ExactSums(rows, targets, problem.loss, weights, free)
    ridge = np.append(problem.alpha / rows.spread**2, np.zeros(int(free)))
    start = np.zeros((1, len(means), len(ridge)))
    if free:
        start[..., -1] = constants
    return NewtonModels(sums, np.ones((1, len(sums.totals)), np.bool_), ridge, floors), start


@np.errstate(over="ignore", invalid="ignore")  # of values that ask for all rows
def exact_newton(problem: Problem, looked_at: int = LOOKED_AT) -> Solution:
    """Solve a problem of log loss or squared hinge with an L2 penalty or none, on its rows as they were given.

    The excess of the solution is half of the squared Newton decrement, or where that is not reliable the objective.

    Parameters
    ----------
    problem : Problem
    looked_at : int, default=LOOKED_AT
        Rows that columns are standardised by; all, where values overflow that are far from those of these rows.
    """
    table, spreads, targets = problem.table, spread_of(problem.table, looked_at), problem.targets.astype(np.float32)
    weights = None if problem.weights is None else problem.weights.astype(np.float32)
    rows, most = StandardRows(table, spreads), min(problem.max_iter, MOST_STEPS)
    models, start = newton_models(problem, rows, targets, weights)
    near = None if problem.near is None else rows.in_standard_units(*problem.near, problem.fit_intercept)[None]
    fit = None if near is None else _from_near(models, near, problem.tol, most)
    if fit is None:
        fit = _from_samples(problem, models, start, spreads, most)
    fit = models.made_reliable(fit, problem.tol, most)
    if looked_at < len(targets) and not np.isfinite(fit.gaps).all():
        return exact_newton(problem, len(targets))
    if problem.alpha == 0:
        warn_of_separable(problem.loss, fit.values[0], models.floors)
    coef, intercept = rows.in_user_units(fit.points[0], problem.fit_intercept)
    reads = models.sums.reads
    return Solution(
        "newton",
        coef,
        intercept,
        fit.values[0],
        fit.gaps[0],
        fit.converged[0],
        max(1, fit.steps),
        reads,
        reads * stored_bytes(table),
    )


def _from_near(models: NewtonModels, near: Floats, tol: float, most: int) -> NewtonFit | None:
    """Minimise from a point that was given, [1, targets, n]; None where it is far from the optimum."""
    row_sums = models.sums.read(near)
    values, gradients = models.objectives(near, row_sums)
    excess = newton_steps(models.hessians(row_sums), gradients)[1]
    if not ((values <= models.floors / FLOOR) & (excess <= FAR * np.maximum(values, models.floors))).all():
        return None
    fit = models.minimise(near, tol, most, row_sums=row_sums, halvings=FEW_HALVINGS, near=NEAR)
    return fit if fit.converged.all() else None


def _from_samples(problem: Problem, models: NewtonModels, start: Floats, spreads: ColumnSpread, most: int) -> NewtonFit:
    """Minimise from the optima of larger and larger samples of the rows, and from the best constant models."""
    targets, weights = models.sums.targets, models.sums.weights
    points, row_sums, hessians = start, None, None
    for chosen in samples(len(targets), start.shape[2]):
        labels, of_some = targets[chosen], None if weights is None else weights[chosen]
        seen = labels if of_some is None else labels * (of_some > 0)
        if (seen.min(axis=0) == -1).all() and (seen.max(axis=0) == 1).all():
            some, _ = newton_models(problem, StandardRows(problem.table[chosen], spreads), labels, of_some)
            spare = NOISE * start.shape[2] / (2 * len(chosen))
            few = min(most, SAMPLE_STEPS)
            fit = some.minimise(points, problem.tol, few, spare, hessians=hessians, near=NEAR)
            points, hessians = fit.points, fit.hessians
    if points is not start:
        row_sums = models.sums.read(points, hessians=False)
        if (worse := ~(models.objectives(points, row_sums)[0] <= models.floors / FLOOR)).any():
            points, row_sums, hessians = np.where(worse[..., None], start, points), None, None
    halvings = HALVINGS if points is start else FEW_HALVINGS
    fit = models.minimise(points, problem.tol, most, 0.0, row_sums, hessians, halvings, NEAR)
    if points is not start and not fit.converged.all():
        fit = models.minimise(start, problem.tol, most, near=NEAR)
    return fit


def samples(rows: int, columns: int) -> Iterator[NDArray[np.intp]]:
    """Yield numbers of random rows, one of each of many equal pieces of a table, for larger and larger samples."""
    least = max(LEAST_ROWS, ROWS_A_COLUMN * columns)
    sizes, size = [], rows // GROWTH
    while size >= least:
        sizes.append(size)
        size //= GROWTH
    if (sizes[-1] if sizes else rows) >= WORTH * least:
        sizes.append(least)
    random = np.random.default_rng(0)
    for size in reversed(sizes):
        edges = np.arange(size + 1) * rows // size
        yield edges[:-1] + random.integers(np.diff(edges))
