"""`bitlane evaluate`: how good a trained model is on data."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.estimators import SGDClassifier
from bitlane.estimators.saved import SavedModel
from bitlane.evaluation.compare import label_text

from .command import Command
from .saved_model import READ, add_model_arguments, load_model_and_rows
from .source import source_name
from .summaries import SUMMARIES


def _run(arguments: argparse.Namespace) -> None:
    saved, table = load_model_and_rows(arguments, labelled=True)
    name = source_name(arguments.source)
    pairs = [("data", f"{name}: {table.rows:,} rows"), *quality(saved, table.X, table.y, name)]
    width = max(len(what) for what, _ in pairs)
    print("\n".join(f"{what.ljust(width)}  {value}" for what, value in pairs))


def quality(saved: SavedModel, X: NDArray[np.float64], y: NDArray[Any], name: str) -> list[tuple[str, str]]:
    """Return the quality of a model on labelled rows: names of measures, and their values as text.

    Raises
    ------
    DataError
        Labels are text where the model predicts numbers, or are none of its classes.
    """
    model = saved.estimator
    if isinstance(model, SGDClassifier):
        same = (y.dtype.kind == "U") == (model.classes_.dtype.kind == "U")
        strange = ~np.isin(y, model.classes_) if same else np.ones(len(y), np.bool_)
        if strange.any():
            row, known = int(np.argmax(strange)), ", ".join(map(label_text, model.classes_))
            raise DataError(f"{name}: label {label_text(y[row])!r} in row {row + 1} is none of the classes {known}")
        pairs = [("accuracy", f"{model.score(X, y):.4f}")]
        if hasattr(model, "predict_proba"):
            chosen = model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
            with np.errstate(divide="ignore"):
                pairs.append(("log loss", f"{-np.mean(np.log(chosen)):.5g} nats"))
        return pairs
    if y.dtype.kind != "f":
        raise DataError(f"{name}: target {saved.target!r} holds text, but the model predicts numbers")
    error = np.sqrt(np.mean((model.predict(X) - y) ** 2))
    return [("R squared", f"{model.score(X, y):.4f}"), ("RMSE", f"{error:.5g} label units")]


COMMAND = Command(
    "evaluate",
    SUMMARIES["evaluate"],
    add_model_arguments,
    _run,
    description="Measure a trained model on labelled rows: accuracy and log loss, or R squared and root mean square "
    f"error. {READ}",
    suppress_defaults=True,
)
