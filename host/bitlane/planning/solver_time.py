"""The time of a solver on this machine, measured on some of the rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from bitlane.solvers.costs import MEASURED
from bitlane.solvers.solution import Solution

FEW_ROWS = 4_096  # of the smaller part at least
REPEATS, ENOUGH = 3, 1.0  # a part is solved so often, or until so many seconds have passed; the least time counts
PATIENCE = 5.0  # seconds of the smaller part after which there is no larger one

Fit = Callable[[int], Solution]


@dataclass(frozen=True)
class SolverTime:
    """What a solver takes.

    Attributes
    ----------
    solution : Solution
        Of the rows that were measured.
    measured_rows : int
    seconds : float
        For all rows, in memory.
    bytes_read : int
        Of all rows.
    """

    solution: Solution
    measured_rows: int
    seconds: float
    bytes_read: int


def parts_of(rows: int, columns: int) -> tuple[int, int]:
    """Return the rows of two parts of a table that are measured.

    The solvers treat them as they treat the whole table: with Gram matrices of codes, float32 products, and samples of
    the rows, where they have these of the table.
    """
    half = max(FEW_ROWS, -(-MEASURED // columns))
    return min(rows, half), min(rows, 2 * half)


def measure_solver(fit: Fit, rows: int, columns: int) -> SolverTime:
    """Return the time of a fit of a table, from fits of two parts of its rows: what both need, and what rows add.

    Parameters
    ----------
    fit : callable
        Fits so many rows of the table, and returns the solution.
    rows, columns : int
        Of the table.
    """
    few, many = parts_of(rows, columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds, solution = _least_seconds(fit, few)
        measured, of_row = few, seconds / few
        if many > few and seconds < PATIENCE:
            before = seconds
            seconds, solution = _least_seconds(fit, many)
            measured, of_row = many, max(0.0, seconds - before) / (many - few)
    return SolverTime(solution, measured, seconds + of_row * (rows - measured), solution.bytes_read * rows // measured)


def _least_seconds(fit: Fit, rows: int) -> tuple[float, Solution]:
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < ENOUGH:
        begin = perf_counter()
        solution = fit(rows)
        times.append(perf_counter() - begin)
    return min(times), solution
