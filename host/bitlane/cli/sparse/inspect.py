"""`bitlane sparse inspect`: what is in a model."""

from __future__ import annotations

import argparse
import heapq
from typing import TYPE_CHECKING, Any

from bitlane.cli.argument_types import seed
from bitlane.cli.command import Command
from bitlane.support.text import align_columns

from . import data
from .models import add_model_argument, load_model
from .summary import memory_text, optimizer_text

if TYPE_CHECKING:
    from .models import AnyModel


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_argument(parser)
    parser.add_argument(
        "--top", type=seed, default=10, metavar="N", help="number of largest weights to list (default: 10)"
    )


def _run(arguments: argparse.Namespace) -> None:
    data.require_libraries("a sparse model")
    from bitlane.sparse.batches.schema import Schema, read_schema

    model, settings = load_model(arguments)
    table, spec = model.parameters.table, model.spec.to_json()
    largest, zeros, weights = _largest(model, arguments.top)
    lines = [
        ("kind", spec["kind"]),
        ("loss", spec["loss"]),
        *([] if spec["kind"] == "lr" else [("dim", spec["dim"])]),
        *([("fields", spec["fields"])] if spec["fields"] else []),
        *([("hidden layers", ", ".join(map(str, spec["hidden"])))] if spec["hidden"] else []),
        ("optimizers", optimizer_text(spec)),
        ("learning", "row after row" if spec["batch_rows"] == 1 else f"minibatches of {spec['batch_rows']} rows"),
        ("rows learned", f"{model.rows_seen:,}"),
        *_times_lines(settings),
        *([("trained on", data.data_name(settings["paths"]))] if "paths" in settings else []),
        *(
            [("negatives kept", f"{settings['negatives']:g} of them, each weighing {1 / settings['negatives']:g}")]
            if settings.get("negatives")
            else []
        ),
        *([("columns", schema.text())] if isinstance(schema := read_schema(settings), Schema) else []),
        ("keys", f"{len(table):,}"),
        (
            "memory of the table",
            memory_text(model),
        ),
        ("weights that are 0", f"{zeros / max(1, weights):.1%} of {weights:,}"),
        ("dense parameters", f"{_dense_size(model):,}"),
        *_statistics_lines(model),
    ]
    print("\n".join(f"{name:<22}{value}" for name, value in lines))
    if largest:
        measure = "weight" if spec["linear"] is not None else "norm of the row"
        print("\n" + align_columns([["key", measure], *([str(key), f"{value:.6g}"] for _, key, value in largest)]))


COMMAND = Command(
    "inspect",
    "show settings, size and largest weights of a model",
    _add_arguments,
    _run,
)


def _dense_size(model: AnyModel) -> int:
    base: Any = getattr(model, "model", model)
    return sum(matrix.pull().size for matrix in base.matrices.values())


def _times_lines(settings: data.Settings) -> list[tuple[str, str]]:
    """The times of the rows that were learned, if they have such."""
    from bitlane.sparse.registry.learned import utc_text
    from bitlane.sparse.training.run_folder import sample_of

    sample = sample_of(settings)
    if sample is None or sample.times is None:
        return []
    return [("their times (UTC)", " to ".join(map(utc_text, sample.times)))]


def _statistics_lines(model: AnyModel) -> list[tuple[str, str]]:
    statistics: Any = getattr(model, "statistics", None)
    if statistics is None:
        return []
    settings = statistics.settings
    half = "" if settings.half_life is None else f", half-life {settings.half_life:g} {settings.unit}"
    keys = f"{len(statistics.table):,} keys, {statistics.table.nbytes / 1e6:,.1f} MB"
    return [("statistics", f"{' and '.join(settings.kinds)} of {len(settings.fields)} fields{half}; {keys}")]


def _largest(model: AnyModel, count: int) -> tuple[list[tuple[float, int, float]], int, int]:
    """The keys of the largest linear weights, or else of the longest rows; how many weights are 0, of how many."""
    import numpy as np

    linear = model.spec.linear is not None
    largest: list[tuple[float, int, float]] = []
    zeros = total = 0
    for keys, rows, *_ in model.parameters.table.items():
        weights: Any = model.parameters.weights_of(rows)
        zeros, total = zeros + int((weights == 0).sum()), total + weights.size
        values = weights[:, 0] if linear else np.linalg.norm(weights, axis=1)
        top = np.argsort(-np.abs(values), kind="stable")[:count]
        largest += [(abs(float(values[index])), int(keys[index]), float(values[index])) for index in top]
        largest = heapq.nlargest(count, largest)
    return largest, zeros, total
