"""From a problem in the columns of a user to a solver, and back."""

from __future__ import annotations

import numpy as np

from bitlane.encoded.table import EncodedTable
from bitlane.errors import DataError
from bitlane.support.processors import processors

from .by_gram import solve_by_gram
from .centered import solve_centered
from .linear_models import linear_models
from .problem import Problem
from .solution import Floats, Solution

GRAM_COLUMNS = 6_000  # up to which "auto" takes a Gram matrix: its solution takes the cube of them
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
        solver = "gram" if problem.has_gram and problem.table.shape[1] <= GRAM_COLUMNS else "centered"
    if solver == "centered":
        return by_passes(problem)
    if not problem.has_gram:
        what = f"loss={problem.loss!r}" if problem.loss != "squared_error" else "an L1 penalty"
        raise DataError(f"solver='gram' is for squared errors with an L2 penalty or none, not for {what}: use 'auto'")
    return solve_by_gram(problem)


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
    fit = solve_centered(rows.coded, models, problem.tol, problem.max_iter, processors())
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
