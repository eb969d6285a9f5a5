"""`bitlane sparse evaluate`: how good a model is on data."""

from __future__ import annotations

import argparse

from bitlane.cli.command import Command

from . import data
from .models import add_data_arguments, add_model_argument, load_model
from .progress import row_progress
from .summary import quality_table, warn_if_worse_than_constant
from .validating import add_allow_learned


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_argument(parser)
    add_data_arguments(parser)
    add_allow_learned(parser)


def _run(arguments: argparse.Namespace) -> None:
    data.require_libraries("evaluating a sparse model")
    from bitlane.sparse.registry.learned import NewRowsCheck
    from bitlane.sparse.training.evaluation import evaluate

    model, settings = load_model(arguments)
    rows = data.identify_rows(arguments.data, arguments.test_fraction, arguments.allow_learned, settings)
    new = NewRowsCheck(settings, rows, str(arguments.model))
    source = data.open_evaluation(arguments.data, settings, arguments.test_fraction, labelled=True)
    with row_progress("evaluating", None) as bar:
        known = data.known_keys(settings)
        quality = evaluate(model, new.through(source.batches(0)), None if bar is None else bar.on_rows, known)
    table = quality_table([(data.data_name(arguments.data), quality)])
    print(table, "", f"new rows: {new.text}", known.text(), sep="\n")
    data.warn_of_unknown(known)
    warn_if_worse_than_constant(quality)


COMMAND = Command(
    "evaluate",
    "measure AUC, log loss and calibration of a model on data",
    _add_arguments,
    _run,
    description="Measure AUC, log loss and calibration of a model on data, or on the held-out rows of a data set.",
)
