"""Newton's method on exact rows, from the optimum of some of them: two reads of a large table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .centered import warn_of_separable
from .exact_sums import ExactSums, RowSums, Singles
from .losses import SmoothLoss
from .problem import Problem
from .solution import Floats, Solution
from .standard_rows import LOOKED_AT, StandardRows, spread_of

MOST_STEPS = 100
FLOOR = 1e-3  # of the objective of the best constant model: below it, an objective is as good as 0
JITTER = 1e-7  # of a diagonal, that keeps a singular matrix solvable: the rounding of float32
BLIND = 1e-5  # least eigenvalue of a Hessian with a diagonal of 1, from which on float32 sums say how far an optimum is
HALVINGS, FEW_HALVINGS = 30, 2  # of a step; from the optimum of a sample that says too little, it is begun anew
RISE = 1e-6  # of an objective, that rounding of float32 explains
SLOW = 1 / 4  # of an excess: a Hessian that leaves more of it after a step is computed anew
AIM = 0.1  # of a tolerance: what is aimed at, as long as steps are not slow
# Samples of the rows: each has so many times the rows of the one before, and so many at least, also for each column.
GROWTH, LEAST_ROWS, ROWS_A_COLUMN = 16, 1_024, 8
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
        Objectives, and half of the squared Newton decrements: about what they are above their least values. Infinite
        where a Hessian is too near to a singular one to tell, as beside an outlier.
    converged : bool array [sets, targets]
        Whether the gap is within the tolerance.
    steps : int
    """

    points: Floats
    row_sums: RowSums
    values: Floats
    gaps: Floats
    converged: NDArray[np.bool_]
    steps: int


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
        halvings: int = HALVINGS,
        near: float = 0.0,
    ) -> NewtonFit:
        """Minimise all objectives in step; a step that does not help is halved.

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
            The sums at the start with Hessians, if they are known; one set of them is for all sets.
        halvings : int, default=HALVINGS
            Of a step that does not help.
        near : float, default=0.0
            Share of an objective: with a smaller excess a Hessian serves for the next point, too. With 0, the sums at
            the end have Hessians.
        """
        row_sums = row_sums or self.sums.read(points)
        values, gradients = self.objectives(points, row_sums)
        hessians = self._hessians(row_sums)
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
                lengths[rose] /= 2
            points, values = np.where(rose[..., None], points, tried), np.where(rose, values, tried_values)
            if rose[left].all():
                break
            if anew:
                hessians = self._hessians(row_sums)
            before = gaps
            steps, gaps = newton_steps(hessians, gradients)
            slow = bool((gaps > SLOW * before)[left].any())
            stalled = slow and anew
        blind = _least_eigenvalues(hessians) < BLIND
        return NewtonFit(points, row_sums, values, np.where(blind, np.inf, gaps), converged & ~blind, taken)

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

    def _hessians(self, row_sums: RowSums) -> Floats:
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


def _least_eigenvalues(hessians: Floats) -> Floats:
    """Return the least eigenvalues [...] of Hessians [..., n, n] that are scaled to a diagonal of 1."""
    size = np.sqrt(np.maximum(np.diagonal(hessians, axis1=-2, axis2=-1), 1e-300))
    scaled = hessians / (size[..., :, None] * size[..., None, :])
    if not np.isfinite(scaled).all():
        return np.zeros(scaled.shape[:-2])
    return np.asarray(np.linalg.eigvalsh(scaled)[..., 0])


def newton_steps(hessians: Floats, gradients: Floats) -> tuple[Floats, Floats]:
    """Return ``-H**-1 g`` [..., n] and ``g H**-1 g / 2`` [...], with a jitter for singular H.

    Where a number is not finite, the steps are 0 and the latter is not finite.
    """
    if not (np.isfinite(hessians).all() and np.isfinite(gradients).all()):
        return np.zeros_like(gradients), np.full(gradients.shape[:-1], np.inf)
    diagonal = np.diagonal(hessians, axis1=-2, axis2=-1)
    size = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled, jitter = hessians / (size[..., :, None] * size[..., None, :]), JITTER
    while True:
        definite = scaled + jitter * np.eye(size.shape[-1])
        try:
            np.linalg.cholesky(definite)
        except np.linalg.LinAlgError:
            jitter *= 10
            continue
        steps = -np.linalg.solve(definite, (gradients / size)[..., None])[..., 0] / size
        return steps, -(steps * gradients).sum(axis=-1) / 2


def newton_models(
    problem: Problem, rows: StandardRows, targets: Singles, weights: Singles | None
) -> tuple[NewtonModels, Floats]:
    """Return the models of a problem on all parts of some rows, and the best constant points [1, targets, n]."""
    loss, free = SmoothLoss(problem.loss), problem.fit_intercept
    means = np.average(targets.astype(np.float64), axis=0, weights=weights)
    constants = loss.constant(means) if free else np.zeros(len(means))
    above, below = (loss.exact(constants, np.full(len(means), sign))[0] for sign in (1.0, -1.0))
    floors = FLOOR * (below + (above - below) * (1 + means) / 2)
    sums = ExactSums(rows, targets, problem.loss, weights, free)
    ridge = np.append(problem.alpha / rows.spread**2, np.zeros(int(free)))
    start = np.zeros((1, len(means), len(ridge)))
    if free:
        start[..., -1] = constants
    return NewtonModels(sums, np.ones((1, len(sums.totals)), np.bool_), ridge, floors), start


@np.errstate(over="ignore", invalid="ignore")  # of values that ask for all rows
def exact_newton(problem: Problem, looked_at: int = LOOKED_AT) -> Solution:
    """Solve a problem of log loss or squared hinge with an L2 penalty or none, on its rows as they were given.

    The excess of the solution is half of the squared Newton decrement, which it is about near the optimum.

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
    points, row_sums = start, None
    for chosen in samples(len(targets), start.shape[2]):
        labels, of_some = targets[chosen], None if weights is None else weights[chosen]
        seen = labels if of_some is None else labels * (of_some > 0)
        if (seen.min(axis=0) == -1).all() and (seen.max(axis=0) == 1).all():
            some, _ = newton_models(problem, StandardRows(table[chosen], spreads), labels, of_some)
            spare = NOISE * start.shape[2] / (2 * len(chosen))
            points = some.minimise(points, problem.tol, min(most, SAMPLE_STEPS), spare).points
    if points is not start:
        row_sums = models.sums.read(points)
        if (worse := ~(models.objectives(points, row_sums)[0] <= models.floors / FLOOR)).any():
            points, row_sums = np.where(worse[..., None], start, points), None
    halvings = HALVINGS if points is start else FEW_HALVINGS
    fit = models.minimise(points, problem.tol, most, row_sums=row_sums, halvings=halvings)
    if points is not start and not fit.converged.all():
        fit = models.minimise(start, problem.tol, most)
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
        reads * rows.stored_bytes,
    )


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
