"""Cross-validation on exact rows: folds start where the models of all rows end, and need few reads from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bitlane.quantization.row_table import reordered

from .coded_tables import stored_bytes
from .exact_newton import MOST_HESSIANS, MOST_STEPS, newton_models
from .held_out import PART_READS, Folds, PathFit
from .problem import Problem
from .solution import Solution
from .standard_rows import StandardRows, spread_of

NEAR_ALL = 0.2  # as NEAR, for folds: their Hessians cost more, and those at the models of all rows are near
KEPT_BYTES = 1 << 28  # of standardised rows, which are read for each penalty


def exact_path(problem: Problem, alphas: Sequence[float], folds: Folds) -> PathFit | None:
    """Solve a problem of log loss or squared hinge with an L2 penalty for each penalty, on all rows and on each fold.

    Each part of the rows that folds fit or hold out together has sums of its own. Those of a model of all rows give the
    gradients and Hessians of all folds at its point, from which a step leads to the models of the folds. The next
    penalty starts at the models of the one before.

    Returns
    -------
    PathFit, or None if the folds overlap in too many ways, or the Hessians of their parts take too much memory, or
    a gap is not reliable
    """
    table, (patterns, parts) = problem.table, folds.parts()
    hessians = len(patterns) * problem.targets.shape[1] * table.shape[1] ** 2
    if len(patterns) > PART_READS * len(folds) or hessians > 2 * MOST_HESSIANS:
        return None
    order = np.argsort(parts, kind="stable")
    ends = np.append(0, np.bincount(parts, minlength=len(patterns)).cumsum()).tolist()
    rows = StandardRows(reordered(table, order), spread_of(table), ends, KEPT_BYTES)
    targets = problem.targets[order].astype(np.float32)
    weights = None if problem.weights is None else problem.weights[order].astype(np.float32)
    whole, start = newton_models(problem, rows, targets, weights)
    fitted, held = patterns.T.reshape(2, len(folds), -1)
    points, row_sums, most = start, None, min(problem.max_iter, MOST_STEPS)
    losses, fits, ends, steps, unfinished = np.empty((len(alphas), len(folds))), [], [], 0, 0
    for at, alpha in enumerate(alphas):
        of_all = replace(whole, ridge=whole.ridge * (alpha / problem.alpha))
        fit = of_all.minimise(points, problem.tol, most, row_sums=row_sums)
        fits.append(of_all.made_reliable(fit, problem.tol, most))
        points, row_sums = fits[-1].points, fits[-1].row_sums
        if not fits[-1].converged.all():
            return None
        of_folds = replace(of_all, fitted=fitted)
        begin = np.repeat(points, len(folds), axis=0)
        of_fold = of_folds.minimise(begin, problem.tol, most, row_sums=row_sums, near=NEAR_ALL)
        ends.append(of_fold.points)
        losses[at] = replace(of_all, fitted=held).mean_losses(of_fold.row_sums).mean(axis=1)
        steps += fits[-1].steps + of_fold.steps
        unfinished += int(np.count_nonzero(~of_fold.converged))
    reads = whole.sums.reads
    solutions = [
        Solution(
            "newton",
            *rows.in_user_units(fit.points[0], problem.fit_intercept),
            fit.values[0],
            fit.gaps[0],
            fit.converged[0],
            max(1, steps),
            reads,
            reads * stored_bytes(table),
        )
        for fit in fits
    ]
    coef, intercept = rows.in_user_units(np.stack(ends), problem.fit_intercept)
    return PathFit(losses, solutions, coef, intercept, unfinished)
