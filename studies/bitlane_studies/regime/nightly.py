"""A model that is fitted anew each night: `python -m bitlane_studies.regime.nightly`.

A table of many days grows by a day. Logistic regression of all its rows starts from nothing, or with `warm_start=True`
from the model of the day before: `LinearClassifier` on floats and on an encoded table to which the day was appended,
and scikit-learn's `LogisticRegression` with the loosest tolerance that ends within `EXCESS` of the optimum. All fits
take turns in one process on one core.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bitlane import EncodedTable, LinearClassifier
from bitlane.data.encoding import EncodingOptions, append_file, encode_file
from bitlane.data.pieces import piece_source
from bitlane.support.text import align_columns
from bitlane_studies.command import run

from .problems import Floats
from .tables import dense
from .with_scikit import TOLERANCES

EXCESS = 1e-4  # above the optimum, over it
REPEATS = 3  # the least time counts
BLOCK = 1 << 16  # rows
OURS = "bitlane, table of floats"


class Nightly(NamedTuple):
    """A table with and without its last day, and how a model is fitted to it.

    Attributes
    ----------
    before, after : array or EncodedTable
    model : callable
        Returns a new estimator, with or without a warm start.
    """

    before: Any
    after: Any
    model: Callable[[bool], Any]


def measured(days: Nightly, y: Floats, repeats: int | None = None) -> tuple[dict[bool, float], dict[bool, Any]]:
    """Return seconds of processors and the fitted models, by whether they start at the model of the day before."""
    last = days.model(True).fit(days.before, y[: len(days.before)])
    start, seconds, models = (last.coef_, last.intercept_), dict.fromkeys((False, True), np.inf), {}
    for _ in range(REPEATS if repeats is None else repeats):
        for warm in seconds:
            models[warm] = last if warm else days.model(False)
            if warm:
                last.coef_, last.intercept_ = (each.copy() for each in start)
            begun = time.process_time()
            models[warm].fit(days.after, y)
            seconds[warm] = min(seconds[warm], time.process_time() - begun)
    return seconds, models


def objective(model: Any, X: Floats, y: Floats) -> float:
    """Return the objective of a model on floats, in float64."""
    coef = np.ravel(model.coef_).astype(np.float64)
    spans = [slice(first, first + BLOCK) for first in range(0, len(X), BLOCK)]
    loss = sum(np.logaddexp(0, -y[at] * (X[at] @ coef + model.intercept_[0])).sum() for at in spans)
    return float((loss + coef @ coef / 2) / len(X))


def reads_of(model: Any) -> int:
    """Return how often a fit read all rows; of scikit-learn, iterations."""
    return int(model.solution_.passes if isinstance(model, LinearClassifier) else model.n_iter_[0])


def encoded_days(X: Floats, cut: int, folder: Path) -> tuple[EncodedTable, EncodedTable, float]:
    """Return a file before and after the rows from `cut` on were appended, and the seconds that took."""
    days = folder / "days.npy", folder / "day.npy"
    for path, rows in zip(days, (X[:cut], X[cut:]), strict=True):
        np.save(path, rows)
    out = folder / "days.bits"
    encode_file(piece_source(str(days[0])), out, EncodingOptions())
    before = EncodedTable.open(out)
    begun = time.process_time()
    append_file(piece_source(str(days[1])), out, EncodingOptions())
    seconds = time.process_time() - begun
    return before, EncodedTable.open(out), seconds


def scikit(alpha: float, tol: float) -> Callable[[bool], Any]:
    """Return a maker of scikit-learn's estimator, which counts the penalty by rows."""
    from sklearn.linear_model import LogisticRegression

    return lambda warm: LogisticRegression(C=1 / alpha, tol=tol, max_iter=10_000, warm_start=warm)


def compared(rows: int, columns: int, days: int) -> list[list[str]]:
    """Return the lines of a table of programs: cold and warm times over ours on floats, reads, and the excess."""
    X, labels = dense(rows, columns, "classes")
    X -= X.mean(axis=0, dtype=np.float64).astype(np.float32)
    X /= X.std(axis=0, dtype=np.float64).astype(np.float32)
    y, cut = labels[:, 0], rows - rows // days

    def ours(warm: bool) -> Any:
        return LinearClassifier(alpha=1 / rows, warm_start=warm)

    least = min(objective(model(False).fit(X, y), X, y) for model in (scikit(1.0, 1e-7), ours))
    with tempfile.TemporaryDirectory() as folder:
        before, after, append = encoded_days(X, cut, Path(folder))
        found = {
            OURS: measured(Nightly(X[:cut], X, ours), y),
            "bitlane, encoded table": measured(Nightly(before, after, ours), y),
        }
    for tol in TOLERANCES:
        lbfgs = Nightly(X[:cut], X, scikit(1.0, tol))
        if all(objective(model, X, y) <= least * (1 + EXCESS) for model in measured(lbfgs, y, 1)[1].values()):
            break
    found["scikit-learn, lbfgs"] = measured(lbfgs, y)
    unit = found[OURS][0][False]
    lines = []
    for name, (seconds, models) in found.items():
        reads = " / ".join(str(reads_of(models[warm])) for warm in (False, True))
        over = max(objective(model, X, y) / least - 1 for model in models.values())
        times = [f"{seconds[warm] / unit:.2f}" for warm in (False, True)]
        ratio = f"{seconds[True] / seconds[False]:.2f}"
        lines.append([f"{rows:,} x {columns}", name, *times, ratio, reads, f"{over:.0e}"])
    lines[1][1] += f" (append: {append / unit:.2f})"
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    threadpools = import_module("threadpoolctl")
    parser = argparse.ArgumentParser(description="Compare warm starts on a table that has grown by a day.")
    parser.add_argument("--sizes", nargs="+", default=["1000000x32", "200000x256"], help="rows x columns")
    parser.add_argument("--days", type=int, default=30, help="days with the new one (default: %(default)s)")
    parser.add_argument("--core", type=int, default=0, help="core to run on (default: %(default)s)")
    given = parser.parse_args(arguments)
    os.sched_setaffinity(0, [given.core])
    head = ["table", "program", "cold", "warm", "warm / cold", "reads or iterations", "above the optimum"]
    with threadpools.threadpool_limits(1):
        sizes = [[int(number) for number in size.split("x")] for size in given.sizes]
        lines = [line for rows, columns in sizes for line in compared(rows, columns, given.days)]
    print(align_columns([head, *lines], left=2))


if __name__ == "__main__":
    run(main)
