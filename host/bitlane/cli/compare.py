"""`bitlane compare`: train at several precisions and compare."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bitlane.contract.precision import Precision
from bitlane.data.tables import Dataset
from bitlane.errors import DataError
from bitlane.evaluation.compare import (
    SAMPLINGS,
    ComparisonData,
    binary_labels,
    compare,
    one_vs_rest,
    precisions_of,
)
from bitlane.evaluation.schedules import TrainingSchedule
from bitlane.quantization.labels import curve_label
from bitlane.reporting.plots import draw
from bitlane.reporting.summary import comparison_record, comparison_summary
from bitlane.support.user_warnings import warn_user
from bitlane.training.learning_rate import suggest_learning_rate
from bitlane.training.options import AUTO, DECAY_EPOCHS, derived_decay

from .argument_types import integers, words
from .command import Command
from .companions import Companion, check_companions, given_options
from .output import check_run_folder, progress, report
from .source import load_source, source_name
from .summaries import SUMMARIES
from .training_arguments import DEFAULTS, SHARED, add_training_arguments, derive_epochs, fill, opened_device

LEAST_BITS = 4  # that the learning rate suits
COMPARE_DEFAULTS: dict[str, Any] = {
    **DEFAULTS,
    "epochs": DECAY_EPOCHS,
    "bits": [2, 4, 8, 32],
    "sampling": list(SAMPLINGS),
    "staleness": [0],
    "positive": None,
}

COMPANIONS = (
    Companion(("draws",), "double sampling", lambda arguments: "double" in arguments.sampling),
    *SHARED,
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--bits", type=integers, help="stored bits of a feature, separated by commas (default: 2,4,8,32)")
    add("--sampling", type=words, help=f"samplings, separated by commas (default: {','.join(SAMPLINGS)})")
    add(
        "--positive",
        metavar="CLASS",
        help="class to separate from the rest (default: the first; of two classes the second)",
    )
    add_training_arguments(parser)
    add("--staleness", type=integers, help="age of the weights in batches: 0, 1, or 0,1 for both (default: 0)")


def _run(arguments: argparse.Namespace) -> None:
    given = given_options(arguments)
    fill(arguments, COMPARE_DEFAULTS)
    precisions, staleness = precisions_of(arguments.bits, arguments.sampling), sorted(set(arguments.staleness))
    if not set(staleness) <= {0, 1}:
        raise DataError(f"--staleness {','.join(map(str, arguments.staleness))}: choose 0, 1 or 0,1")
    check_companions(arguments, given, COMPANIONS)
    check_run_folder(arguments)
    table, task = load_source(arguments)
    table = replace(table, X=np.asarray(table.X))  # an encoded table is decoded, for the baseline in float64
    title, y, held_out = _labels(arguments, table, task)
    arguments.epochs = derive_epochs(arguments, table.rows)
    schedule = _schedule(arguments, table, precisions)
    _note_noisy(table, precisions, schedule)
    trainings = (1 + len(precisions)) * len(staleness)
    order = np.random.default_rng(arguments.seed).permutation(table.rows)  # one for all: sorted rows mislead SGD
    data = ComparisonData(table.X[order], y[order], held_out)
    with opened_device(arguments) as device, progress("comparing", trainings * schedule.epochs) as advance:
        comparison = compare(
            data, precisions, schedule, staleness=staleness, device=device, title=title, on_epoch=advance
        )
    record = comparison_record(comparison, source_name(arguments.source))
    report(comparison_summary(comparison), record, arguments.out, lambda folder: draw(record, folder))


COMMAND = Command(
    "compare",
    SUMMARIES["compare"],
    _add_arguments,
    _run,
    description="Train in float64, at full precision, and at each given precision, all with the same row order and "
    "schedule.",
    suppress_defaults=True,
)


def _labels(arguments: argparse.Namespace, table: Dataset, task: str) -> tuple[str, Any, Any]:
    """Title, labels of the rows, and held-out rows if there are any; classes as -1 and 1."""
    name, y, held_out = source_name(arguments.source), table.y, None
    if task == "regression":
        for option, value in (("positive", arguments.positive), ("loss", arguments.loss)):
            if value not in (None, "squared_error"):
                raise DataError(f"--{option} {value}: {name} is a regression and has no classes")
        return name if table.target == "y" else f"{name}: {table.target}", y, held_out
    y, positive = one_vs_rest(y, arguments.positive)
    if table.held_out is not None:
        held_out = (table.held_out[0], binary_labels(table.held_out[1], positive))
    return f"{name}: class {positive} against the rest", y, held_out


def _schedule(arguments: argparse.Namespace, table: Dataset, precisions: Sequence[Precision]) -> TrainingSchedule:
    rate = arguments.learning_rate
    if rate == AUTO:  # shared with more bits, which would learn too slowly at the rate of 2 and 3 bits
        rate = min(
            suggest_learning_rate(table.X, arguments.batch_size, precision, loss=arguments.loss)
            for precision in (None, *(each for each in precisions if each.draws and each.bits >= LEAST_BITS))
        )
    if arguments.batch_size > table.rows:
        warn_user(f"batch_size={arguments.batch_size} exceeds the {table.rows} rows: one batch takes them all")
    return TrainingSchedule(
        epochs=arguments.epochs,
        batch_size=min(arguments.batch_size, table.rows),
        learning_rate=rate,
        decay=derived_decay(arguments.epochs) if arguments.decay == AUTO else arguments.decay,
        draws=arguments.draws,
        loss=arguments.loss,
        seed=arguments.seed,
    )


def _note_noisy(table: Dataset, precisions: Sequence[Precision], schedule: TrainingSchedule) -> None:
    """Warn about precisions that need a smaller learning rate than the shared one."""
    for precision in (each for each in precisions if each.draws):
        rate = suggest_learning_rate(table.X, schedule.batch_size, precision, loss=schedule.loss)
        if schedule.learning_rate > 4 * rate:
            label = curve_label(precision.sampling, precision.bits)
            warn_user(
                f"{label}: learning rate {schedule.learning_rate:g} is large for so few levels; "
                f"try --learning-rate {rate:g}"
            )
