"""The model that a command of `bitlane sparse` names, and the settings of its training."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitlane.cli.companions import Companion, check_companions, given_options
from bitlane.errors import DataError

from . import data
from .data_arguments import add_reader_arguments
from .model_settings import NETWORKS

if TYPE_CHECKING:
    from bitlane.sparse.models.enriched import EnrichedModel
    from bitlane.sparse.models.model import SparseModel

    AnyModel = SparseModel | EnrichedModel


def add_model_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a model."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="a run folder, or the folder of a saved model")


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name data for a model."""
    add = parser.add_argument
    add(
        "data",
        nargs="+",
        metavar="DATA",
        help="files, folders, globs, URIs or a data set's name; columns as in training",
    )
    add(
        "--test-fraction",
        type=float,
        metavar="SHARE",
        help="use only the rows that `train` held out with the same --test-fraction",
    )
    add_reader_arguments(parser, "as in training", default=None)
    add("--device", metavar="NAME", help="torch device for the layers of a network (default: cpu)")


def open_model(folder: Path, device: str) -> AnyModel:
    """Return the model of a folder, with its statistics if it has some."""
    from bitlane.sparse.models.enriched import EnrichedModel, has_statistics
    from bitlane.sparse.models.model import SparseModel

    return EnrichedModel.load(folder, device) if has_statistics(folder) else SparseModel.load(folder, device)


def load_model(arguments: argparse.Namespace) -> tuple[AnyModel, dict[str, Any]]:
    """Return the model that the arguments name, and the settings of its data.

    Raises
    ------
    DataError
        There is no model, or it is damaged.
    """
    from bitlane.sparse.training.run_folder import find_model, read_settings

    folder = find_model(arguments.model)
    model = open_model(folder, getattr(arguments, "device", None) or "cpu")
    needs = Companion(
        ("device",), f"a network, and {folder} is {model.spec.kind}", lambda _: model.spec.kind in NETWORKS
    )
    check_companions(arguments, given_options(arguments), [needs])
    settings = read_settings(folder)
    reading = data.given_reading(arguments)
    if settings is None:
        task = data.LOSS_TASKS[model.spec.loss]
        return model, {"schema": None, "label": None, "task": task, "fields": model.spec.fields or None, **reading}
    try:
        return model, {**settings["data"], **reading}
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{folder} is damaged: its settings lack the data section ({type(error).__name__})") from error
