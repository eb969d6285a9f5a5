"""`bitlane plan --solver`: what a fit of `LinearRegressor` or `LinearClassifier` takes on this machine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.estimators.linear import LinearClassifier, LinearRegressor
from bitlane.planning.solver_time import measure_solver, parts_of
from bitlane.solvers.costs import MEASURED, gram_rates
from bitlane.solvers.solve import SOLVERS
from bitlane.support.text import align_columns, fill_lines
from bitlane.training.losses import MARGIN_LOSSES

from .argument_types import positive
from .source import load_source, source_name

SOLVER_DEFAULTS: dict[str, Any] = {"solver": None, "penalty": "l2", "alpha": None, "models": None}
PENALTIES = ("l2", "l1", "elasticnet", "none")
MEGABYTE = 1e6


class PlannedTable(NamedTuple):
    """A table whose fit is planned.

    Attributes
    ----------
    name : str
        Empty for a table of random numbers.
    rows, features, model_count : int
    task : {"regression", "classification"}
    part : callable
        Returns about so many of the rows, spread over the table, and their labels.
    """

    name: str
    rows: int
    features: int
    model_count: int
    task: str
    part: Callable[[int], tuple[Any, NDArray[Any]]]


def add_solver_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a plan for a solver."""
    add = parser.add_argument
    add(
        "--solver",
        choices=SOLVERS,
        help="plan LinearRegressor or LinearClassifier on this machine, with this solver (default: SGD on a board)",
    )
    add("--penalty", choices=PENALTIES, help="penalty of a solver (default: l2)")
    add("--alpha", type=float, help="strength of the penalty (default: that of the estimator)")
    add("--models", type=positive, help="targets or classes of random rows (default: one target, or two classes)")


def plan_solver(arguments: argparse.Namespace) -> None:
    """Print what a solver takes, from arguments with their defaults."""
    table = _planned_table(arguments)
    estimator = LinearRegressor if table.task == "regression" else LinearClassifier
    parameters = {"loss": arguments.loss, "alpha": arguments.alpha}
    given = {name: value for name, value in parameters.items() if value is not None}
    penalty = None if arguments.penalty == "none" else arguments.penalty
    model = estimator(solver=arguments.solver, penalty=penalty, **given)
    parts = {rows: table.part(rows) for rows in parts_of(table.rows, table.features)}
    found = measure_solver(lambda rows: model.fit(*parts[rows]).solution_, table.rows, table.features)
    solution, gram = found.solution, None
    if solution.solver == "gram" and table.rows * table.features >= MEASURED:
        floats, codes = (rate.seconds(table.rows, table.features) for rate in gram_rates())
        gram = {"floats_seconds": floats, "codes_seconds": codes}
    record = {
        "data": {"name": table.name, "rows": table.rows, "features": table.features, "models": table.model_count},
        "estimator": estimator.__name__,
        "parameters": {name: getattr(model, name) for name in ("loss", "penalty", "alpha", "tol")},
        "solver": solution.solver,
        "reason": solution.reason,
        "seconds": found.seconds,
        "passes": solution.passes,
        "bytes_read": found.bytes_read,
        "measured_rows": found.measured_rows,
        "gram_matrix": gram,
    }
    print(json.dumps(record, indent=1) if arguments.json else _text(record))


def _planned_table(arguments: argparse.Namespace) -> PlannedTable:
    """Return the table of a file or a data set, or one of random numbers."""
    sizes = arguments.rows, arguments.features
    if arguments.source is None:
        if None in sizes:
            raise DataError("give a file, the name of a data set, or both --rows and --features")
        return _random_table(arguments)
    for name in ("rows", "features", "models"):
        if getattr(arguments, name) is not None:
            raise DataError(f"{arguments.source} has its own rows, features and labels: omit --{name}")
    table, task = load_source(arguments)
    labels = table.y if task == "classification" else np.zeros(1)
    first = np.unique(labels, return_index=True)[1]
    count = len(first) if len(first) > 2 else 1

    def part(rows: int) -> tuple[Any, NDArray[Any]]:
        if rows == table.rows:
            return table.X, table.y
        some = np.union1d(np.arange(rows) * table.rows // rows, first)  # with a row of each class
        return table.X[some], table.y[some]

    return PlannedTable(source_name(arguments.source), table.rows, table.X.shape[1], count, task, part)


def _random_table(arguments: argparse.Namespace) -> PlannedTable:
    """Return a table of normal numbers, with labels that follow from them and noise."""
    task, count = arguments.task, arguments.models or 1
    if task == "auto":
        task = "classification" if arguments.loss in MARGIN_LOSSES else "regression"
    if task == "classification" and count == 2:
        count = 1  # of two classes

    def part(rows: int) -> tuple[Any, NDArray[Any]]:
        random = np.random.default_rng(0)
        X = random.standard_normal((rows, arguments.features), np.float32)
        weights = random.standard_normal((arguments.features, count), np.float32) / arguments.features**0.5
        y = X @ weights + random.logistic(0, 0.5, (rows, count))
        if task == "classification":
            y = y.argmax(axis=1) if count > 1 else y[:, 0] > 0
        return X, y

    return PlannedTable("", arguments.rows, arguments.features, count, task, part)


def _text(record: dict[str, Any]) -> str:
    """Return the record as text of at most 80 columns."""
    data, parameters, gram = record["data"], record["parameters"], record["gram_matrix"]
    models = f", {data['models']} models" if data["models"] > 1 else ""
    words = (
        f"{data['name'] + ': ' if data['name'] else ''}{data['rows']:,} rows of {data['features']:,} features{models}; "
        f"{record['estimator']}, loss {parameters['loss']}, penalty {parameters['penalty']}, "
        f"alpha {parameters['alpha']:g}, to {parameters['tol']:g} of the objective"
    )
    kind = "of its rows" if data["name"] else "random rows"
    cells = [
        ["this machine", "", ""],
        ["solver", record["solver"], record["reason"]],
        ["time", f"{record['seconds']:,.3g} s", f"in memory; measured on {record['measured_rows']:,} {kind}"],
        ["reads of all rows", f"{record['passes']:,}", "about: they depend on the data"],
        ["read", f"{record['bytes_read'] / MEGABYTE:,.1f} MB", "as the rows are stored"],
    ]
    if gram is not None:
        note = f"{gram['codes_seconds']:.3g} s from codes of 8 bits, by rates of this machine, measured once"
        cells.append(["Gram matrix of floats", f"{gram['floats_seconds']:.3g} s", note])
    return f"{fill_lines(words)}\n\n{align_columns(cells, wrap=True)}"
