"""`bitlane predict`: the predictions of a trained model for the rows of a file."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.estimators import SGDClassifier
from bitlane.estimators.saved import SavedModel
from bitlane.evaluation.compare import label_text
from bitlane.support.atomic import atomic_write

from .command import Command
from .output import check_file
from .saved_model import READ, add_model_arguments, load_model_and_rows
from .summaries import SUMMARIES

SUFFIXES = (".csv", ".npz")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    parser.add_argument(
        "--out",
        type=Path,
        default=None,
        metavar="FILE",
        help="csv file, or npz file with the arrays prediction, probabilities and classes (default: csv to stdout)",
    )


def _run(arguments: argparse.Namespace) -> None:
    out: Path | None = arguments.out
    if out is not None:
        if out.suffix not in SUFFIXES:
            raise DataError(f"--out {out}: the name must end with {' or '.join(SUFFIXES)}")
        check_file(out)
    saved, table = load_model_and_rows(arguments, labelled=False)
    arrays = predictions(saved, table.X)
    if out is None:
        _write_csv(sys.stdout, arrays)
        return
    with atomic_write(out) as temporary:
        if out.suffix == ".npz":
            with temporary.open("wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
        else:
            with temporary.open("w", encoding="utf-8", newline="") as text:
                _write_csv(text, arrays)
    print(f"{table.rows:,} predictions written to {out}")


def predictions(saved: SavedModel, X: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    """Return the predictions of a model, the classes of a classifier, and the probabilities if it has some."""
    model = saved.estimator
    arrays: dict[str, NDArray[Any]] = {"prediction": model.predict(X)}
    if isinstance(model, SGDClassifier):
        arrays["classes"] = model.classes_
        if hasattr(model, "predict_proba"):
            arrays["probabilities"] = model.predict_proba(X)
    return arrays


def _write_csv(file: IO[str], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a row for each prediction; numbers have all of their bits."""
    text = label_text if "classes" in arrays else repr
    columns: dict[str, Iterable[str]] = {"prediction": map(text, arrays["prediction"].tolist())}
    if "probabilities" in arrays:
        for label, values in zip(arrays["classes"], arrays["probabilities"].T, strict=True):
            columns[f"probability_{label_text(label)}"] = map(repr, values.tolist())
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))


COMMAND = Command(
    "predict",
    SUMMARIES["predict"],
    _add_arguments,
    _run,
    description="Predict the target of new rows by a trained model. A model with loss log_loss has a probability for "
    f"each class, too. {READ}",
    suppress_defaults=True,
)
