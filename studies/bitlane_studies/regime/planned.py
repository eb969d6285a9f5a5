"""How near `bitlane plan --solver auto` is to the time of a fit: `python -m bitlane_studies.regime.planned`.

Each table is a file, of which the command measures parts; then the estimator is fitted to all rows, in the same process
on one core.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import tempfile
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from bitlane.cli.main import main as bitlane
from bitlane.estimators.linear import LinearClassifier, LinearRegressor
from bitlane.support.text import align_columns
from bitlane_studies.command import run

from .tables import dense

REPEATS = 3  # the least time counts


class PlannedFit(NamedTuple):
    """A generated table, and what is fitted to it.

    Attributes
    ----------
    rows, columns : int
    loss, penalty : str
    """

    rows: int
    columns: int
    loss: str
    penalty: str = "l2"


FITS = (
    PlannedFit(1_000_000, 32, "squared_error"),
    PlannedFit(1_000_000, 32, "log_loss"),
    PlannedFit(200_000, 256, "squared_error"),
    PlannedFit(200_000, 256, "log_loss"),
    PlannedFit(100_000, 512, "log_loss"),
    PlannedFit(400_000, 64, "hinge"),
)


def compared(fit: PlannedFit, folder: Path) -> list[str]:
    """Return a line: table, solver, predicted and measured seconds, their ratio, and the seconds of the plan."""
    numbers = fit.loss == "squared_error"
    X, y = dense(fit.rows, fit.columns, "numbers" if numbers else "classes")
    file = folder / "table.npz"
    np.savez(file, X=X, y=y[:, 0])
    words = ["plan", str(file), "--solver", "auto", "--loss", fit.loss, "--penalty", fit.penalty, "--json"]
    said, begun = io.StringIO(), perf_counter()
    with contextlib.redirect_stdout(said):
        bitlane([*words, "--task", "regression" if numbers else "classification"])
    plan_seconds, plan = perf_counter() - begun, json.loads(said.getvalue())
    model: Any = LinearRegressor() if numbers else LinearClassifier(loss=fit.loss, penalty=fit.penalty)
    seconds = np.inf
    for _ in range(REPEATS):
        begun = perf_counter()
        model.fit(X, y[:, 0])
        seconds = min(seconds, perf_counter() - begun)
    found = [plan["seconds"], seconds, plan["seconds"] / seconds]
    name = f"{fit.rows:,} x {fit.columns}, {fit.loss}"
    solvers = sorted({plan["solver"], model.solution_.solver})
    reads = f"{plan['passes']} / {model.solution_.passes}"
    return [name, " or ".join(solvers), *(f"{number:.2g}" for number in found), reads, f"{plan_seconds:.1f}"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Compare planned times of solvers with those of fits.")
    parser.add_argument("--divide", type=int, default=1, help="rows are divided by this (default: %(default)s)")
    parser.add_argument("--core", type=int, default=0, help="core to run on (default: %(default)s)")
    given = parser.parse_args(arguments)
    os.sched_setaffinity(0, [given.core])
    threadpools = import_module("threadpoolctl")
    head = ["table", "solver", "planned s", "fit s", "ratio", "reads planned / fit", "s of the plan"]
    warnings.simplefilter("ignore")
    with threadpools.threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        lines = [compared(fit._replace(rows=fit.rows // given.divide), Path(folder)) for fit in FITS]
    print(align_columns([head, *lines], left=2))


if __name__ == "__main__":
    run(main)
