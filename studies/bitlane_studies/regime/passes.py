"""How many passes over 8-bit rows the optimum takes: `python -m bitlane_studies.regime.passes`.

For each table the optimum is found in float64 first. Then `solver="centered"` fits with smaller and smaller tolerances,
until the objective on the floats is at most 0.1 % above the optimum.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bitlane.errors import BitlaneError
from bitlane.solvers.problem import Problem
from bitlane.solvers.solve import solve
from bitlane.support.text import align_columns
from bitlane_studies.command import run

from .cells import MapCell
from .optimum import optimum_of
from .ours import TOLERANCES
from .problems import FitProblem

TARGET, MOST = 1e-3, 40  # of the optimum that may be left, and passes
ALPHA = 1e-4  # that of `LinearClassifier()`
PAIRS = (
    MapCell("cadata, squares", "cadata", "squared_error", "numbers"),
    MapCell("cpusmall, squares", "cpusmall", "squared_error", "numbers"),
    MapCell("cod-rna, log", "cod-rna", "log_loss", "first"),
    MapCell("digits, log", "digits", "log_loss", "first"),
    MapCell("a9a, log", "a9a", "log_loss", "first"),
    MapCell("one-hot, log", "one-hot", "log_loss", "first", 20_000, 400),
    MapCell("MNIST 0, log", "mnist", "log_loss", "first"),
    MapCell("cod-rna, hinge", "cod-rna", "hinge", "first"),
    MapCell("a9a, hinge", "a9a", "hinge", "first"),
    MapCell("digits, hinge", "digits", "hinge", "first"),
)


class PassCount(NamedTuple):
    """What a fit took.

    Attributes
    ----------
    passes : int
        Reads of all rows: of the codes, and of the floats where these were needed; the read that encodes is not one.
    excess : float
        Of the objective on the floats over the optimum, as a share.
    bytes_read : int
    """

    passes: int
    excess: float
    bytes_read: int


def passes_to(problem: FitProblem, optimum: float, target: float = TARGET) -> PassCount:
    """Return what the fit with the largest tolerance takes whose objective is at most `target` above the optimum.

    If no tolerance is small enough, that is the fit with the smallest.
    """
    y = problem.y.astype(np.float64)
    for tolerance in TOLERANCES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a fit that ends early: its excess says so
            asked = Problem(
                problem.X, y, problem.loss, problem.alphas[0], float(problem.penalty == "l1"), tol=tolerance
            )
            found = solve(asked, "centered")
        excess = problem.objective(found.coef[None, None], found.intercept[None, None]) / optimum - 1
        if excess <= target:
            break
    return PassCount(found.passes, excess, found.bytes_read)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the passes of each table; 1 if more than one of ten take more than `MOST`."""
    parser = argparse.ArgumentParser(description="Count the passes that the optimum takes over 8-bit rows.")
    parser.add_argument("--tables", nargs="+", metavar="NAME", help="only tables whose names begin so")
    parser.add_argument("--alpha", type=float, default=ALPHA, help="penalty (default: %(default)s)")
    given = parser.parse_args(arguments)
    chosen = [cell for cell in PAIRS if given.tables is None or cell.name.startswith(tuple(given.tables))]
    if not chosen:
        raise BitlaneError(f"no such table; there are {', '.join(cell.name for cell in PAIRS)}")
    lines, within = [["table, loss", "rows x columns", "passes", "excess", "MB read"]], 0
    for cell in chosen:
        problem = replace(cell.problem(Path()), alphas=(given.alpha,))
        found = passes_to(problem, optimum_of(problem)[0])
        rows, columns = problem.X.shape
        size = f"{found.bytes_read / 1e6:.1f}"
        lines.append([cell.name, f"{rows:,} x {columns}", str(found.passes), f"{found.excess:.1e}", size])
        within += found.passes <= MOST and found.excess <= TARGET
        print(" ".join(lines[-1]), file=sys.stderr, flush=True)
    print(align_columns(lines))
    print(f"within {MOST} passes: {within} of {len(chosen)}")
    return int(10 * within < 9 * len(chosen))


if __name__ == "__main__":
    run(main)
