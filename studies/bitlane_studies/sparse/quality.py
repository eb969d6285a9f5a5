"""Quality on real data: `python -m bitlane_studies.sparse.quality goodbooks census32k a9a`.

The study trains LR, FM, FFM and, if torch is installed, DNN with the default settings of `bitlane sparse train`, and
scikit-learn's LogisticRegression on the same features: a column for each key. Held out are the rows that
``--test-fraction 0.1`` leaves out, or the test rows of a data set that has such. It prints AUC and log loss of the
held-out rows.
"""

from __future__ import annotations

import argparse
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from bitlane.cli.argument_types import positive, seed
from bitlane.cli.sparse import data, model_settings
from bitlane.cli.sparse.summary import optimizer_text
from bitlane.cli.sparse.train import DEFAULTS
from bitlane.errors import BitlaneError
from bitlane.sparse.training.windows import Quality, measure
from bitlane.support.optional import require_extra
from bitlane.support.text import align_columns

if TYPE_CHECKING:
    from bitlane.sparse.batches.batch import Batch

FRACTION = 0.1  # held out
NETWORK = "dnn"
KINDS = ("lr", "fm", "ffm", NETWORK)
EPOCHS = 3
ITERATIONS = 1000  # of scikit-learn's solver, at most


@dataclass(frozen=True)
class ModelQuality:
    """One model on one data set.

    Attributes
    ----------
    name : str
    quality : Quality
        Of the held-out rows.
    seconds : float
        Of the training, without reading and compiling.
    settings : str
    """

    name: str
    quality: Quality
    seconds: float
    settings: str


def train_and_test(name: str) -> tuple[Batch, Batch]:
    """Return the rows of a data set to train on, and those that are held out."""
    from bitlane.sparse.batches.batch import Batch

    arguments = Namespace(**{**DEFAULTS, "data": [name], "test_fraction": FRACTION})
    opened = data.open_training(data.new_settings(arguments, "classification"))
    test = data.test_split(opened.settings)
    train = opened.train if test is None else data.open_files(opened.settings, [name])
    held_out = opened.test if test is None else test
    assert held_out is not None
    first, second = (Batch.concatenate(list(source.batches(0))) for source in (train, held_out))
    return first, second


def train_ours(kind: str, train: Batch, test: Batch, epochs: int, start: int) -> ModelQuality:
    """Train a model with its default settings, row after row in one thread (networks by minibatches).

    Parameters
    ----------
    kind : str
    train, test : Batch
    epochs : int
    start : int
        The seed.
    """
    from bitlane.sparse.models.model import SparseModel
    from bitlane.sparse.periods import FIRST_ROWS

    fields = int(max(train.fields.max(initial=0), test.fields.max(initial=0))) + 1
    arguments = Namespace(**{**DEFAULTS, "model": kind, "seed": start})
    spec = model_settings.model_spec(arguments, fields if model_settings.needs_fields(kind) else 0)
    SparseModel(spec).learn(train.slice(0, 2 * spec.batch_rows))  # compiles
    model = SparseModel(spec)
    model.begin(train.slice(0, FIRST_ROWS))
    began = time.perf_counter()
    for _ in range(epochs):
        model.learn(train)
    seconds = time.perf_counter() - began
    text = optimizer_text(spec.to_json()) + ("" if kind == "lr" else f"; dim {spec.dim}")
    return ModelQuality(kind.upper(), measure(model.scores(test), test.labels, "log_loss"), seconds, text)


def train_sklearn(train: Batch, test: Batch, start: int) -> ModelQuality:
    """Train scikit-learn's LogisticRegression on a column for each key."""
    linear_model = require_extra("sklearn.linear_model", "the baseline")
    keys = np.unique(train.keys)
    began = time.perf_counter()
    model = linear_model.LogisticRegression(C=1.0, solver="lbfgs", max_iter=ITERATIONS, random_state=start)
    model.fit(_columns(train, keys), train.labels)
    seconds = time.perf_counter() - began
    scores = model.decision_function(_columns(test, keys)).astype(np.float32)
    text = f"lbfgs, C=1, {int(model.n_iter_[0])} iterations"
    return ModelQuality("LogisticRegression", measure(scores, test.labels, "log_loss"), seconds, text)


def _columns(batch: Batch, keys: Any) -> Any:
    """The rows as a CSR matrix with a column for each key, and none for the keys that are not there."""
    sparse = require_extra("scipy.sparse", "the baseline")
    columns = np.minimum(np.searchsorted(keys, batch.keys), len(keys) - 1)
    values = np.where(keys[columns] == batch.keys, batch.values, 0.0)
    return sparse.csr_matrix((values, columns, batch.offsets), shape=(batch.rows, len(keys)))


def study(name: str, epochs: int, start: int, say: Callable[[str], object]) -> list[ModelQuality]:
    """Train all models on a data set.

    Parameters
    ----------
    name : str
        A data set or file.
    epochs : int
    start : int
        The seed.
    say : callable
        Takes a line about the progress.
    """
    train, test = train_and_test(name)
    say(f"{name}: {train.rows:,} rows to train on, {test.rows:,} held out, {len(np.unique(train.keys)):,} keys")
    qualities = []
    for kind in KINDS:
        if kind == NETWORK and find_spec("torch") is None:
            say(f"{kind.upper()} is left out: it needs torch")
            continue
        say(f"training {kind.upper()}")
        qualities.append(train_ours(kind, train, test, epochs, start))
    say("training scikit-learn's LogisticRegression")
    return [*qualities, train_sklearn(train, test, start)]


def report(name: str, epochs: int, qualities: Sequence[ModelQuality]) -> str:
    """Return the measurements of a data set as a table."""
    cells = [[f"{data.data_name([name])}, {epochs} epochs", "settings", "AUC", "log loss", "seconds"]]
    for each in qualities:
        quality = each.quality
        assert quality.auc is not None and quality.log_loss is not None
        cells.append([each.name, each.settings, f"{quality.auc:.4f}", f"{quality.log_loss:.4f}", f"{each.seconds:.1f}"])
    return align_columns(cells, left=2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study, print a table for each data set, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bitlane_studies.sparse.quality", description=__doc__)
    parser.add_argument("data", nargs="+", metavar="DATA", help="goodbooks, census32k, a9a, or files")
    parser.add_argument("--epochs", type=positive, default=EPOCHS, help=f"passes over the data (default: {EPOCHS})")
    parser.add_argument("--seed", type=seed, default=0, help="seed of the first weights (default: 0)")
    arguments = parser.parse_args(argv)
    try:
        data.require_libraries("this study")
        for name in arguments.data:
            print(report(name, arguments.epochs, study(name, arguments.epochs, arguments.seed, print)), end="\n\n")
    except BitlaneError as error:
        print(f"quality: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
