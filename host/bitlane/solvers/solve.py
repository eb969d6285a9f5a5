"""From a problem in the columns of a user to a solver, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bitlane.encoded.table import EncodedTable
from bitlane.errors import DataError
from bitlane.support.processors import processors

from .by_gram import solve_by_gram
from .centered import CenteredFit, solve_centered, warn_of_wide
from .coded_tables import encoded, exact_rows, hidden_variances, stored_bytes
from .exact_newton import MOST_HESSIANS, exact_newton
from .linear_models import LinearModels, linear_models
from .problem import Problem
from .solution import Floats, Solution

ROUNDS = 8  # of a refinement, at most
# Columns up to which Hessians of exact rows take less time than passes over codes, which floats become first.
NARROW, NARROW_CODES = 256, 160
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
    solvers: dict[str, Callable[[Problem], Solution]]
    solvers = {"gram": solve_by_gram, "newton": solve_by_newton, "centered": solve_by_passes}
    chosen = chosen_solver(problem, solver)
    found = solvers[chosen](problem)
    missed = f"{chosen} did not reach the tolerance"
    return replace(found, reason=_reason(problem, chosen, solver) if found.solver == chosen else missed)


def solve_by_newton(problem: Problem) -> Solution:
    """Solve on exact rows by Newton's method, and by passes where its last promise says too little."""
    found = exact_newton(problem)
    return found if found.converged.all() else solve_by_passes(problem, found)


def chosen_solver(problem: Problem, solver: str, folds: int = 1) -> str:
    """Return "gram", "newton" or "centered" for one fit, or one for each fold; raise DataError as `solve` does."""
    if solver not in SOLVERS:
        raise DataError(f"solver={solver!r}: choose one of {', '.join(map(repr, SOLVERS))}")
    if solver == "gram" and not problem.has_gram:
        raise DataError(f"solver='gram' is for squared errors, not for loss={problem.loss!r}: use 'auto'")
    if solver == "gram" or (solver == "auto" and problem.has_gram):
        warn_of_wide(problem.table.shape[1])
        return "gram"
    if solver == "auto":
        return "newton" if problem.has_curvature and _has_small_hessians(problem, folds) else "centered"
    return solver


def _reason(problem: Problem, chosen: str, solver: str) -> str:
    """Return why `chosen_solver` has chosen a solver."""
    if solver != "auto":
        return f"solver={solver!r}"
    if chosen == "gram":
        return "squared errors: one Gram matrix has the solution"
    if chosen == "newton":
        return f"{problem.loss} with few columns: exact rows are read a few times"
    if problem.has_curvature:
        columns, models = problem.table.shape[1], problem.targets.shape[1]
        if columns > _most_columns(problem):
            return f"Hessians of {columns} columns take longer than passes over codes"
        return f"Hessians of {columns} columns for {models} models take too much memory"
    return f"{problem.loss} with an L1 penalty" if problem.lasso else f"{problem.loss} has no second derivative"


def _has_small_hessians(problem: Problem, folds: int = 1) -> bool:
    """Return whether Hessians of exact rows take little time, and those of all models little memory.

    Folds share them, and no others.
    """
    columns = problem.table.shape[1]
    return bool(columns <= _most_columns(problem, folds) and problem.targets.shape[1] * columns**2 <= MOST_HESSIANS)


def _most_columns(problem: Problem, folds: int = 1) -> int:
    """Return the columns up to which Hessians of exact rows take less time than passes over codes."""
    return NARROW_CODES if isinstance(problem.table, EncodedTable) and folds == 1 else NARROW


def solve_by_passes(problem: Problem, doubtful: Solution | None = None) -> Solution:
    """Solve by passes over rows of few bits, and over the exact rows some times.

    Parameters
    ----------
    problem : Problem
    doubtful : Solution, optional
        What Newton's method on exact rows has found, where its promise says too little. That of passes says no more
        then, so that only a gap counts.
    """
    table, rows, shift = problem.table, encoded(problem), shift_of(problem)
    models = linear_models(
        problem.targets - shift,
        problem.loss,
        problem.alpha,
        problem.l1_ratio,
        problem.weights,
        fit_intercept=problem.fit_intercept,
    )
    columns, encoding_reads = rows.column_codes.active, int(rows is not table)
    if problem.near is not None:
        models = replace(models, near=_of_stored_columns(*problem.near, rows, shift))
    fit = fit_by_passes(problem, rows, models)
    excess, converged = np.minimum(fit.gaps, fit.estimates), fit.converged
    if doubtful is not None:
        excess = np.minimum(fit.gaps, fit.objectives)
        converged = excess <= problem.tol * fit.objectives
    if not converged.all():
        found = doubtful or (_on_exact_rows(problem) if exact_rows(problem, rows) is not None else None)
        if found is not None and (found.objective <= fit.objectives * (1 + problem.tol)).all():
            return found
    coef = np.zeros((len(models), table.shape[1]))
    coef[:, columns] = fit.coefficients
    return Solution(
        "centered",
        coef,
        fit.intercepts + shift,
        fit.objectives,
        excess,
        converged,
        fit.iterations,
        fit.passes + fit.exact_reads,
        fit.bytes_read + (encoding_reads + fit.exact_reads) * stored_bytes(table),
    )


def fit_by_passes(problem: Problem, rows: EncodedTable, models: LinearModels) -> CenteredFit:
    """Fit models to the codes of the table of a problem, and to its values where codes may cost too much."""
    exact, variances = exact_rows(problem, rows), hidden_variances(problem, rows)
    return solve_centered(
        rows.coded, models, problem.tol, problem.max_iter, exact, ROUNDS, variances, threads=processors()
    )


def _on_exact_rows(problem: Problem) -> Solution | None:
    """Solve without codes: values that are far from all others leave few codes to these. None where no solver does."""
    if problem.has_gram:
        return solve_by_gram(problem)
    return exact_newton(problem) if problem.has_curvature else None


@np.errstate(over="ignore", invalid="ignore")  # of models that are then found to be worse than constant ones
def _of_stored_columns(coef: Floats, intercept: Floats, rows: EncodedTable, shift: Floats) -> tuple[Floats, Floats]:
    """Return models of all columns as those of the stored ones, of targets less a shift."""
    center, active = rows.column_codes.center.copy(), rows.column_codes.active
    center[active] = 0
    return coef[:, active], intercept - shift + coef @ center


def shift_of(problem: Problem) -> Floats:
    """Return what is taken off the targets [models], so that their float32 differences keep all digits."""
    if problem.loss != "squared_error" or not problem.fit_intercept:
        return np.zeros(problem.targets.shape[1])
    return np.asarray(problem.targets.mean(axis=0))
