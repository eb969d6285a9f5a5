"""The model and the data of `bitlane predict` and `bitlane evaluate`."""

from __future__ import annotations

import argparse
from pathlib import Path

from bitlane.data.tables import Dataset, ModelColumns
from bitlane.estimators.saved import SavedModel, read_model

from .reading import READING, add_reading_arguments
from .source import SOURCE_HELP, load_rows
from .training_arguments import fill

READ = (
    "Columns are matched by name, in any order. The file is read as in training, unless an option says otherwise. "
    "Of a data set with held-out rows, only these are used."
)


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a model and data."""
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="a folder that `bitlane train --out` wrote, or its model.npz")
    add("source", metavar="DATA", help=SOURCE_HELP)
    add_reading_arguments(parser)


def load_model_and_rows(arguments: argparse.Namespace, *, labelled: bool) -> tuple[SavedModel, Dataset]:
    """Return the model, and the rows with its columns; their labels are None unless they are asked for."""
    saved = read_model(arguments.model)
    fill(arguments, {**READING, **{name: saved.reading[name] for name in READING if name in saved.reading}})
    columns = ModelColumns(saved.feature_names, saved.target, labelled, saved.means)
    return saved, load_rows(arguments, columns)
