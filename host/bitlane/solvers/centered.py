"""Many linear models at their optimum from one table of coded rows, and from exact rows read a few times more.

A pass takes exact losses and gradients of the coded rows, for all models. Newton's method needs few of them: its
Hessians are those of a few rows, whose codes a pass copies (`sampled_newton.py`). Exact rows are reached by bit
centering (C. De Sa et al., "High-accuracy low-precision training", arXiv:1803.03383): their scores and gradient at a
center are read once, and the difference to their optimum is solved on the coded rows.

An accelerator takes such sums as it is, in epochs of one batch: `bitlane.training.to_optimum`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.coded_rows import CodedRows, Floats
from bitlane.support.user_warnings import warn_user

from .certificate import duality_gaps
from .coded_objective import CodedObjective
from .exact_rows import exact_center
from .linear_models import LinearModels
from .model_search import ModelSearch
from .quasi_newton import ENOUGH, QuasiNewton, passes_of_newton, suits
from .sampled_newton import FIRST_REACH, SampledNewton

FIRST_WIDTH = 2.0  # of the smooth part of hinge
NARROWER = 0.5, 0.125  # the next width, as a share: at most and at least
ROUGH = 0.01  # of the width: what the next step may promise where the width still shrinks
SETTLED = 1e-9  # of an objective: a promise that leaves a gap to the smooth part of hinge
LEAST_PROMISE = 1e-13  # as a share of the objective
# Of a tolerance: a gap that is left when a step promises so little is not closed. Of hinge, the smooth part is the gap.
PROOF, HINGE_PROOF = 0.1, 1e-3
NOISE = 1e-6  # of an objective on exact rows: what float32 scores round
SHORTER = 0.1  # of a step after which exact rows have a larger objective
SPREADS = 4.0  # of rounding, which exact rows may take across the smooth part of hinge
NEARER = 0.25  # what a round of a refinement leaves on the codes, over the round before: steps show more than promises
MOST_LEFT = 0.99  # of the way to the optimum, after a round
ANYWHERE = 1 / 12  # mean square of what a value is off its code, in units of codes
WIDE = 4_096  # columns from which on a solver warns
ROOM = 0.3  # of a tolerance: what is aimed at, as promises are estimates


@dataclass(frozen=True, eq=False)
class CenteredFit:
    """Fitted models.

    Attributes
    ----------
    coefficients : float64 array [models, m]
        Of the values of the stored columns, in user units.
    intercepts : float64 array [models]
    objectives : float64 array [models]
        On the coded rows; after a refinement on the exact rows.
    gaps : float64 array [models]
        Duality gaps on the coded rows, after a refinement bounds by the gradient of the exact rows: no optimum is
        further below its objective. Infinite without a penalty, and after a refinement for hinge or with an L1 penalty.
    estimates : float64 array [models]
        Of what the objective is above its optimum: what the next step of Newton's method would gain. After a refinement
        with more for what the rounding of codes hides from that step.
    converged : bool array [models]
        Whether the gap or the estimate is within the tolerance.
    iterations, passes, exact_reads, bytes_read : int
        Passes count how often all coded rows were read, for all models together, and `bytes_read` is of these.
    """

    coefficients: Floats
    intercepts: Floats
    objectives: Floats
    gaps: Floats
    estimates: Floats
    converged: NDArray[np.bool_]
    iterations: int
    passes: int
    exact_reads: int
    bytes_read: int


def solve_centered(
    rows: CodedRows,
    models: LinearModels,
    tol: float = 1e-4,
    max_passes: int = 100,
    exact: Any = None,
    refine: int = 0,
    variances: Floats | None = None,
    threads: int = 1,
) -> CenteredFit:
    """Minimise the objectives of many models over the same rows.

    A model is finished when its duality gap proves that its objective is within `tol` of the optimum. Where a penalty
    is so weak that the gap stays, an estimate of a tenth of `tol` ends the search; without a penalty there is no gap,
    and an estimate of half of `tol` ends it. With L1 alone, rounding in passes may leave a gap of some 1e-4.
    Hinge is smoothed, less and less, until the gap of hinge itself is within the tolerance. The same call on the same
    machine gives the same bits, with any number of threads; between machines, results differ by rounding, as LAPACK
    solves the systems of Newton's method.

    Parameters
    ----------
    rows : CodedRows
    models : LinearModels
        From `linear_models`.
    tol : float, default=1e-4
        How far above its optimum an objective may end, as a share of it, or of a thousandth of the objective of the
        best constant model if that is more.
    max_passes : int, default=100
        Of the coded rows; with a refinement as many again.
    exact : array or RowTable [rows, m], optional
        The values of the stored columns that the codes stand for.
    refine : int, default=0
        How often, at most, the models are corrected by the exact rows, which are read once more than that.
    variances : float64 array [m], optional
        About the mean squares of what codes are off the exact values, in user units. By default, values are anywhere
        in their intervals, and some may be clipped.
    threads : int, default=1
        Of the passes.

    Returns
    -------
    CenteredFit
    """
    objective = CodedObjective(rows, models, threads)
    found = _on_codes(objective, tol, max_passes)
    if exact is not None and refine:
        rounding = np.full(rows.shape[1], ANYWHERE) if variances is None else variances / rows.scale.unit**2
        clipped = variances is None or bool((rounding > 2 * ANYWHERE).any())
        found = _on_values(objective, found, exact, refine, rounding, clipped, tol, max_passes)
    free = models.alpha == 0
    warn_of_separable(models.smooth_loss.name, found.objectives[free], found.floors[free])
    coefficients, intercepts = objective.coefficients(found.points)
    return CenteredFit(
        coefficients,
        intercepts,
        found.objectives,
        found.gaps,
        found.estimates,
        found.converged(tol),
        found.iterations,
        objective.passes,
        found.reads,
        objective.passes * rows.shape[0] * -(-rows.shape[1] * rows.bits // 8),
    )


class _Found(NamedTuple):
    """Where a search ended; see `CenteredFit`.

    Attributes
    ----------
    points : float64 array [models, n]
        In units of codes.
    objectives, gaps, estimates, floors : float64 arrays [models]
    iterations : int
    kind : type
        `QuasiNewton` or `SampledNewton`, which found them.
    reads : int, default=0
        Of exact rows.
    """

    points: Floats
    objectives: Floats
    gaps: Floats
    estimates: Floats
    floors: Floats
    iterations: int
    kind: type[QuasiNewton | SampledNewton]
    reads: int = 0

    def converged(self, tol: float) -> NDArray[np.bool_]:
        """Return whether the gap or the estimate of each model is within the tolerance."""
        return np.asarray(np.minimum(self.gaps, self.estimates) <= tol * np.maximum(self.objectives, self.floors))


def _on_codes(objective: CodedObjective, tol: float, max_passes: int) -> _Found:
    """Search on the codes: with passes alone where Hessians take long, and with Hessians if these prove too little."""
    models, start, iterations = objective.models, _constants(objective), 0
    near = None if models.near is None else objective.parameters(*models.near)
    if suits(objective):
        quick = QuasiNewton(objective, start.copy(), near)
        most = min(max_passes, round(ENOUGH * passes_of_newton(*objective.rows.shape)))
        objectives, gaps = _minimise(objective, quick, tol, most)
        proved = (gaps <= tol * np.maximum(objectives, quick.floors)).all()
        iterations, near = quick.iterations, quick.points
        if proved or objective.passes >= max_passes:
            return _Found(quick.points, objectives, gaps, quick.estimates, quick.floors, iterations, QuasiNewton)
    warn_of_wide(objective.rows.shape[1])
    search = SampledNewton(objective, start, near=near)
    objectives, gaps = _minimise(objective, search, tol, max_passes)
    iterations += search.iterations
    return _Found(search.points, objectives, gaps, search.estimates, search.floors, iterations, SampledNewton)


def _on_values(
    objective: CodedObjective,
    found: _Found,
    exact: Any,
    refine: int,
    rounding: Floats,
    clipped: bool,
    tol: float,
    max_passes: int,
) -> _Found:
    """Correct models on codes by the exact rows, in rounds; `rounding` is as of `SampledNewton`."""
    columns, count = objective.rows.shape[1], len(found.points)
    points, floors, iterations = found.points, found.floors, found.iterations
    best_points, best, before, unsolved = points, *np.full((3, count), np.inf)
    limit = objective.passes + max_passes  # of all rounds
    for round_ in range(refine + 1):
        objectives = exact_center(objective, points, exact)
        helps = objectives <= best * (1 + NOISE)
        best = np.where(helps, objectives, best)
        best_points = np.where(helps[:, None], points, best_points)
        gaps, estimates = np.full((2, count), np.inf)
        if not helps.all():  # the codes say too little of the rows: a shorter step
            points = best_points + np.where(helps, 1.0, SHORTER)[:, None] * (points - best_points)
            continue
        spread = np.sqrt((points[:, :columns] ** 2).sum(axis=1) / 12)  # of scores, by the rounding of codes
        reach = FIRST_REACH if clipped else objective.smooth_loss.width + SPREADS * spread
        center = np.zeros_like(points)
        quick = found.kind is QuasiNewton
        search: ModelSearch = (
            QuasiNewton(objective, center) if quick else SampledNewton(objective, center, reach, rounding=rounding)
        )
        last = round_ == refine or objective.passes >= limit
        until = objective.passes + 1 if last else limit
        search.run(np.arange(count), np.full(count, 0.5 * tol * NEARER**round_), until)
        gaps, estimates = search.first_bounds, _estimates(search, before, unsolved)
        before, unsolved = search.first_decrements, search.decrements
        iterations += search.iterations
        if last or (np.minimum(gaps, estimates) <= tol * np.maximum(objectives, floors)).all():
            break
        points = points + search.points
    return _Found(best_points, best, gaps, estimates, floors, iterations, found.kind, round_ + 1)


def _minimise(objective: CodedObjective, search: ModelSearch, tol: float, max_passes: int) -> tuple[Floats, Floats]:
    """Search until the duality gaps of all models are within the tolerance; return their objectives and gaps."""
    models = objective.models
    hinge, count = models.smooth_loss.name == "hinge", len(models)
    objectives, gaps = np.full((2, count), np.inf)
    width = FIRST_WIDTH
    promised = np.full(count, max(0.5 * tol, ROUGH * width) if hinge else 0.5 * tol)
    # The gap falls with the promise of a step, with L1 alone with its root.
    powers = np.where(models.l1_ratio == 1, 2.0, 1.0)
    least = max(LEAST_PROMISE, (HINGE_PROOF if hinge else PROOF) * tol)
    left, anew = np.arange(count), True
    while left.size and objective.passes < max_passes:
        if hinge:
            objective.smoothed(width)
        search.run(left, promised, max_passes, anew)
        objectives[left], gaps[left] = duality_gaps(
            objective, search.points[left], left, search.slope_sums[left], search.slope_sizes[left]
        )
        wanted = tol * np.maximum(objectives, search.floors)
        left = left[np.isfinite(gaps[left]) & (gaps[left] > wanted[left]) & (promised[left] > least)]
        if not left.size:
            break
        smooth = np.maximum(search.objectives[left] - objectives[left], 1e-300)
        settled = search.decrements[left] <= SETTLED * objectives[left]
        anew = hinge and bool((settled | (smooth > 0.4 * wanted[left])).any())
        if anew:  # the smooth part alone leaves about such a gap
            width *= float(np.clip(np.sqrt((ROOM * wanted[left] / smooth).min()), NARROWER[1], NARROWER[0]))
            promised[left] = np.maximum(0.5 * tol, ROUGH * width)
        else:
            share = (ROOM * wanted[left] / gaps[left]) ** powers[left]
            promised[left] = np.maximum(least, np.minimum(promised[left], 0.5 * tol) * np.clip(share, 1e-4, 0.5))
    return objectives, gaps


def _estimates(search: ModelSearch, before: Floats, unsolved: Floats) -> Floats:
    """Return what models at a center may be above their optimum, by all that a search from there says.

    Parameters
    ----------
    search : ModelSearch
    before, unsolved : float64 arrays [models]
        What the first step of the last round promised, and what that round left on the codes; infinite in the first.
    """
    promised = search.first_decrements
    more = np.maximum(promised - np.where(np.isinf(unsolved), promised, unsolved), 0.0)
    left = np.minimum(np.sqrt(more / np.maximum(before, 1e-300)), MOST_LEFT)  # of the way, after a round
    gained = search.first_objectives - search.objectives + search.decrements
    return np.asarray(np.maximum(np.maximum(search.first_estimates, promised / (1 - left)), gained))


def _constants(objective: CodedObjective) -> Floats:
    """Return the best constant models."""
    points = np.zeros(objective.penalty.ridge.shape)
    if objective.models.intercept:
        points[:, -1] = objective.models.constants()
    return points


def warn_of_separable(loss: str, objectives: Floats, floors: Floats) -> None:
    """Warn of models of log loss without a penalty whose loss falls to 0: their weights grow without bound."""
    if loss == "log_loss" and (found := np.count_nonzero(objectives < floors)):
        warn_user(
            f"the features separate the classes of {found} of {len(objectives)} models without a penalty: their "
            "weights have no optimum; set alpha above 0"
        )


def warn_of_wide(columns: int) -> None:
    """Warn of matrices whose decomposition takes long."""
    if columns >= WIDE:
        warn_user(
            f"X has {columns} columns, and this fit decomposes matrices of {columns} x {columns}: the estimators of "
            "SGD need none"
        )
