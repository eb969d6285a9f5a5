"""Least squares of a table: from codes where they are quicker, and then on exact rows as far as the tolerance asks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.table import EncodedTable

from .coded_tables import CodedColumns, StoredColumns, coded_columns, stored_bytes
from .costs import codes_are_quicker
from .elastic_net import elastic_net
from .least_squares import CenteredMoments, LeastSquares
from .moments import coded_moments, float_moments
from .problem import Problem
from .refinement import refine
from .rounding import product_excess, rounding_excess
from .solution import Floats, Solution

STEPS = 50  # of a refinement, at most
SINGLES = 1 << 20  # values of a table from which on float32 products save time


def solve_by_gram(problem: Problem) -> Solution:
    """Solve least squares with any penalty or none, with one Gram matrix for each different column of weights.

    A table that is large enough is encoded. Where rounding and clipping are predicted to cost more than the
    tolerance, the solution moves on to the optimum of the exact rows; with L1, it is found anew.
    """
    table, count = problem.table, problem.targets.shape[1]
    rows = quickest_rows(problem)
    coef, intercept, objective, excess = np.zeros((count, table.shape[1])), *np.zeros((3, count))
    reads, bytes_read = 0, 0 if isinstance(table, EncodedTable) or rows is table else stored_bytes(table)
    for models, weights in problem.by_weights():
        if isinstance(rows, CodedColumns):
            found, over, more = _from_codes(problem, rows, models, weights)
            columns, bytes_read = rows.columns, bytes_read + rows.stored_bytes + more * stored_bytes(table)
        else:
            found, over, more = _from_floats(problem, models, weights)
            columns, bytes_read = np.arange(table.shape[1]), bytes_read + (1 + more) * stored_bytes(table)
        coef[np.ix_(models, columns)], intercept[models] = found.coefficients.T, found.intercepts
        objective[models] = found.squared_errors / 2 + problem.penalty(found.coefficients)
        excess[models] = over * objective[models]
        reads += 1 + more
    done = excess <= problem.tol * objective
    return Solution("gram", coef, intercept, objective, excess, done, reads, reads, bytes_read)


def quickest_rows(problem: Problem) -> Any:
    """Return the rows whose Gram matrix is the quickest: the table of the problem, or CodedColumns."""
    codes = isinstance(problem.table, EncodedTable) or codes_are_quicker(*problem.table.shape)
    return coded_columns(problem) if codes else problem.table


def _from_codes(
    problem: Problem, rows: CodedColumns, models: NDArray[np.intp], weights: Floats | None
) -> tuple[LeastSquares, Floats, int]:
    """Return a solution, what it is above the optimum, over the objective, and how often exact rows were read."""
    targets = problem.targets[:, models]
    moments = coded_moments(rows.coded, targets, weights)
    if rows.errors is None:
        return *_minimum(problem, CenteredMoments.of(moments, problem.fit_intercept)), 0
    moments = rows.errors.moved(moments, weights)
    centered, exact = CenteredMoments.of(moments, problem.fit_intercept), StoredColumns(problem.table, rows.columns)
    if rows.hide(centered.constant):
        centered = CenteredMoments.of(float_moments(exact, targets, weights), problem.fit_intercept)
        return *_minimum(problem, centered), 1
    if problem.lasso:
        found, gaps = _minimum(problem, centered)
        inverse = centered.inverse(found.alpha)
    else:
        (found, inverse), gaps = centered.ridge(problem.ridge * moments.weight), np.zeros(len(models))
    over = gaps + rounding_excess(inverse, found, centered, rows, targets, weights)
    if (over <= problem.tol).all():
        return found, over, 0
    if problem.lasso:
        centered = CenteredMoments.of(float_moments(exact, targets, weights), problem.fit_intercept)
        return *_minimum(problem, centered), 1
    refined = refine(found, centered, inverse, exact, targets, weights, STEPS, problem.tol / 10)
    return refined.solution, refined.excess, refined.reads


def _from_floats(
    problem: Problem, models: NDArray[np.intp], weights: Floats | None
) -> tuple[LeastSquares, Floats, int]:
    """Return a solution, what it is above the optimum, over the objective, and how often rows were read anew.

    Products of a large table are float32; float64 where those are predicted to cost more than the tolerance; and where
    these do, too, the solution moves on to the optimum of the rows.
    """
    table, targets = problem.table, problem.targets[:, models]
    large = table.shape[0] * table.shape[1] >= SINGLES
    if problem.lasso:
        moments = float_moments(table, targets, weights)
        return *_minimum(problem, CenteredMoments.of(moments, problem.fit_intercept)), 0
    for reads, single in enumerate((True, False) if large else (False,)):
        with np.errstate(over="ignore", invalid="ignore"):
            moments = float_moments(table, targets, weights, dtype=np.float32 if single else np.float64)
        if single and not (np.isfinite(moments.gram).all() and np.isfinite(moments.products).all()):
            continue
        centered = CenteredMoments.of(moments, problem.fit_intercept)
        found, inverse = centered.ridge(problem.ridge * moments.weight)
        over = product_excess(inverse, found, centered, single)
        if (over <= problem.tol).all():
            return found, over, reads
    refined = refine(found, centered, inverse, table, targets, weights, STEPS, problem.tol / 10)
    return refined.solution, refined.excess, 1 + refined.reads


def _minimum(problem: Problem, centered: CenteredMoments) -> tuple[LeastSquares, Floats]:
    """Return the solution on the rows of moments, and what it may be above the optimum, over the objective."""
    if problem.lasso:
        return elastic_net(centered, problem.lasso, problem.ridge, problem.tol / 10)
    found, _ = centered.ridge(problem.ridge * centered.moments.weight)
    return found, np.zeros(centered.products.shape[1])
