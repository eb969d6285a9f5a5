"""From a problem in the columns of a user to a solver, and back."""

from __future__ import annotations

import os

import numpy as np

from bitlane.encoded.table import EncodedTable
from bitlane.errors import DataError

from .centered import solve_centered
from .costs import quickest
from .least_squares import ridge
from .linear_models import linear_models
from .moments import coded_moments, float_moments
from .problem import Problem
from .solution import Floats, Solution

SOLVERS = ("auto", "gram", "centered")


def solve(problem: Problem, solver: str = "auto") -> Solution:
    """Solve a problem.

    Parameters
    ----------
    problem : Problem
    solver : {"auto", "gram", "centered"}, default="auto"

    Raises
    ------
    DataError
        The solver is unknown, or cannot solve this problem.
    """
    if solver not in SOLVERS:
        raise DataError(f"solver={solver!r}: choose one of {', '.join(map(repr, SOLVERS))}")
    if solver == "auto":
        solver = quickest(problem)
    if solver == "centered":
        return by_passes(problem)
    if not problem.has_gram:
        what = f"loss={problem.loss!r}" if problem.loss != "squared_error" else "an L1 penalty"
        raise DataError(f"solver='gram' is for squared errors with an L2 penalty or none, not for {what}: use 'auto'")
    return by_gram(problem)


def by_gram(problem: Problem) -> Solution:
    """Solve least squares from Gram matrices, one for each different column of weights."""
    table, count = problem.table, problem.targets.shape[1]
    coef, intercept, objective = np.zeros((count, table.shape[1])), np.zeros(count), np.zeros(count)
    reads = 0
    for models, weights in problem.by_weights():
        targets = problem.targets[:, models]
        if isinstance(table, EncodedTable):
            moments, columns = coded_moments(table.coded, targets, weights), table.column_codes.active
        else:
            moments, columns = float_moments(table, targets, weights), np.arange(table.shape[1])
        found = ridge(moments, problem.alpha * moments.weight, problem.fit_intercept)
        coef[np.ix_(models, columns)], intercept[models] = found.coefficients.T, found.intercepts
        objective[models] = found.squared_errors / 2 + problem.alpha / 2 * (found.coefficients**2).sum(axis=0)
        reads += 1
    nothing, every = np.zeros(count), np.ones(count, np.bool_)
    return Solution("gram", coef, intercept, objective, nothing, every, reads, reads, reads * _bytes(table))


def by_passes(problem: Problem) -> Solution:
    """Solve by passes over rows of few bits."""
    table = problem.table
    rows = table if isinstance(table, EncodedTable) else EncodedTable.of(table, bits=problem.bits)
    shift = _shift(problem)
    models = linear_models(
        problem.targets - shift,
        problem.loss,
        problem.alpha,
        problem.l1_ratio,
        problem.weights,
        fit_intercept=problem.fit_intercept,
    )
    fit = solve_centered(rows.coded, models, problem.tol, problem.max_iter, os.cpu_count() or 1)
    coef = np.zeros((len(models), table.shape[1]))
    coef[:, rows.column_codes.active] = fit.coefficients
    return Solution(
        "centered",
        coef,
        fit.intercepts + shift,
        fit.objectives,
        fit.estimates,
        fit.converged,
        fit.iterations,
        fit.passes,
        fit.bytes_read,
    )


def _shift(problem: Problem) -> Floats:
    """Return what is taken off the targets [models], so that their float32 differences keep all digits."""
    if problem.loss != "squared_error" or not problem.fit_intercept:
        return np.zeros(problem.targets.shape[1])
    return np.asarray(problem.targets.mean(axis=0))


def _bytes(table: object) -> int:
    """Return the bytes of a read of all rows."""
    return table.stored_bytes if isinstance(table, EncodedTable) else table.size * table.dtype.itemsize  # type: ignore
