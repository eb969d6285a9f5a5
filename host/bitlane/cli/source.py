"""The data of a command: a file or a data set by name."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from bitlane.data.catalog import list_datasets
from bitlane.data.datasets import load_dataset
from bitlane.data.tables import Dataset, near_names, read_dataset
from bitlane.errors import DataError

FEW_CLASSES = 20  # at most this many different integers are taken for classes


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name the data and say how to read it."""
    add = parser.add_argument
    add("source", metavar="FILE_OR_DATASET", help="csv, tsv, parquet, libsvm, npz or npy file, or a data set's name")
    add("--target", metavar="NAME", help="name of the label column")
    add("--impute", action="store_true", help="replace NaN and inf with the column mean")


def load_source(arguments: argparse.Namespace) -> tuple[Dataset, str]:
    """Return the data set and its task, "regression" or "classification"."""
    known = {entry.name: entry for entry in list_datasets()}
    source = arguments.source
    if source in known and not Path(source).is_file():
        if arguments.target is not None:
            raise DataError(f"data set {source!r} has one target: omit --target")
        table, task = load_dataset(source), known[source].task
        kind = "regression" if task == "regression" else "classification"
    else:
        if not Path(source).exists() and not Path(source).suffix:
            near = near_names(source, list(known)) or "; see bitlane datasets"
            raise DataError(f"no file or data set {source!r}{near}")
        table = read_dataset(source, arguments.target, impute=arguments.impute)
        kind = guessed_task(table)
    if arguments.task != "auto":
        kind = arguments.task
    if kind == "regression" and table.y.dtype.kind != "f":
        raise DataError(f"target {table.target!r} holds text: use --task classification")
    return table, kind


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
