"""The data of a command: a file or a data set by name."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from bitlane.data.catalog import list_datasets
from bitlane.data.datasets import load_dataset
from bitlane.data.tables import Dataset, ModelColumns, TableOptions, read_table
from bitlane.errors import DataError
from bitlane.support.text import near_names

from .output import byte_progress
from .reading import READING, add_reading_arguments

FEW_CLASSES = 20  # at most this many different integers are taken for classes
SOURCE_HELP = "csv, tsv, jsonl, parquet, libsvm, npz, npy or bits file, or a data set's name"
SOURCE_DEFAULTS: dict[str, Any] = {"target": None, "impute": False, **READING}


def add_source_arguments(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Add the arguments that name the data and say how to read it; the name of the data may be optional."""
    add = parser.add_argument
    add("source", metavar="DATA", help=SOURCE_HELP, **({"nargs": "?"} if optional else {}))  # type: ignore[arg-type]
    add("--target", metavar="COLUMN", help="label column; without a header its number, -1 for the last")
    add("--impute", action="store_true", help="replace NaN and inf with the column mean (default: refuse them)")
    add_reading_arguments(parser)


def load_source(arguments: argparse.Namespace) -> tuple[Dataset, str]:
    """Return the data set and its task, "regression" or "classification"."""
    source = arguments.source
    if is_dataset(source):
        for name, value in SOURCE_DEFAULTS.items():
            if getattr(arguments, name) != value:
                raise DataError(f"data set {source!r} has fixed columns: omit --{name}")
        table, task = load_dataset(source), dataset_tasks()[source]
        kind = "regression" if task == "regression" else "classification"
    else:
        table = _read(source, table_options(arguments))
        kind = guessed_task(table)
    if arguments.task != "auto":
        kind = arguments.task
    if kind == "regression" and table.y.dtype.kind != "f":
        raise DataError(f"target {table.target!r} holds text: use --task classification")
    return table, kind


def load_rows(arguments: argparse.Namespace, model: ModelColumns) -> Dataset:
    """Return the rows of a source for a model; of a source with held-out rows, these alone."""
    source = arguments.source
    table = load_dataset(source) if is_dataset(source) else _read(source, table_options(arguments, model))
    if table.features != (wanted := len(model.features)):
        raise DataError(f"{source_name(source)} has {table.features} features, but the model was trained on {wanted}")
    if table.held_out is None:
        return table
    X, y = table.held_out
    return Dataset(X, y, table.feature_names, table.target)


def table_options(arguments: argparse.Namespace, model: ModelColumns | None = None) -> TableOptions:
    """Return how a file is read, by arguments of which none is missing."""
    return TableOptions(
        None if model is not None else arguments.target,
        model is None and arguments.impute,
        separator=arguments.sep,
        ignore=tuple(arguments.ignore),
        header=arguments.header,
        model=model,
    )


def dataset_tasks() -> dict[str, str]:
    """Return the tasks of the known data sets by name."""
    return {entry.name: entry.task for entry in list_datasets()}


def is_dataset(source: str) -> bool:
    """Whether a source is the name of a data set, and not a file."""
    return source in dataset_tasks() and not Path(source).is_file()


def guessed_task(table: Dataset) -> str:
    """Return "classification" for words, two values, or few integers that repeat; otherwise "regression"."""
    if table.y.dtype.kind != "f":
        return "classification"
    values = np.unique(table.y)
    few = len(values) <= FEW_CLASSES and len(values) * 5 <= table.rows and bool(np.all(values % 1 == 0))
    return "classification" if len(values) == 2 or few else "regression"


def source_name(source: str) -> str:
    """Return the name of a file or data set, without folders."""
    return Path(source).name


def source_path(source: str) -> str:
    """Return a source that means the same in any folder: an absolute path, or the name of a data set."""
    return source if is_dataset(source) else str(Path(source).absolute())


def _read(source: str, options: TableOptions) -> Dataset:
    if not Path(source).exists() and not Path(source).suffix:
        near = near_names(source, list(dataset_tasks())) or "; see bitlane datasets"
        raise DataError(f"no file or data set {source!r}{near}")
    with byte_progress(Path(source)) as on_bytes:
        return read_table(source, options, on_bytes)
