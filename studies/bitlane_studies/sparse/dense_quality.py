"""Compare a step for each worker with one step of the mean: `python -m bitlane_studies.sparse.dense_quality`.

Servers take an optimizer step with the dense gradients of each worker, in the order of the workers; an all-reduce gives
all workers the mean, for one step. Both are computed here, by one process, on a generated click log: at each clock all
workers read the same model. Embeddings are learned alike in both. The AUC is progressive, over the second half of the
rows, for several learning rates of the dense part, because the better one is not the same for both.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from bitlane.errors import BitlaneError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.generator.click_log import ClickLog
from bitlane.sparse.generator.settings import ClickLogSettings
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.optimizers import AdaGrad
from bitlane.sparse.parameters.unique import unique_keys
from bitlane.sparse.training.windows import auc
from bitlane.support.text import align_columns

from ..command import run

KEYS = 20_000  # of the log: few, so that most have been seen
RATES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


def train(spec: ModelSpec, rows: Batch, workers: int, *, mean: bool) -> float:
    """Learn `rows` with bulk-synchronous workers; return the progressive AUC of the second half.

    Parameters
    ----------
    spec : ModelSpec
        Of a network.
    rows : Batch
        Cut into minibatches of `spec.batch_rows`, which the workers get in turn.
    workers : int
    mean : bool
        One dense step with the mean of a clock's gradients, instead of one for each worker.

    Raises
    ------
    BitlaneError
        The rows of the second half have one label.
    """
    model, size, scored = SparseModel(spec), spec.batch_rows, []
    for first in range(0, rows.rows, workers * size):
        dense, pushes, gradients = model.pull_dense(), [], []
        for at in range(first, min(first + workers * size, rows.rows), size):
            batch = rows.slice(at, at + size)
            keys, index = unique_keys(batch.keys)
            weights = model.parameters.weights_of(model.parameters.peek(keys))
            scores, sparse, outer = model.gradients(batch, weights, index, dense)
            scored.append(scores)
            pushes.append((keys, sparse))
            gradients.append(outer)
        for keys, sparse in pushes:
            model.parameters.push(keys, sparse, first, create=True)
        for name, matrix in model.matrices.items():
            parts = [each[name] for each in gradients]
            for gradient in [np.asarray(np.mean(parts, axis=0), np.float32)] if mean else parts:
                matrix.push(gradient, first)
    half = rows.rows // 2
    found = auc(np.concatenate(scored)[half:], rows.labels[half:])
    if found is None:
        raise BitlaneError(f"all {rows.rows - half:,} rows of the second half have one label: take more rows")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Train both ways at each learning rate, and print a table."""
    parser = argparse.ArgumentParser(description="Compare a dense step for each worker with one step of the mean.")
    parser.add_argument("--rows", type=int, default=200_000, metavar="N", help="of the log (default: 200,000)")
    parser.add_argument("--workers", type=int, default=4, metavar="N", help="default: 4")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the log and the model (default: 0)")
    options = parser.parse_args(arguments)
    if options.rows < 1000 or options.workers < 1:
        parser.error("--rows must be at least 1,000, --workers at least 1")
    log = ClickLog(ClickLogSettings(keys=KEYS, seed=options.seed))
    rows = log.batch(0, options.rows)
    fields = int(rows.fields.max()) + 1
    cells: list[tuple[str, ...]] = [("learning rate", "a step for each worker", "one step of the mean")]
    for rate in RATES:
        dense = AdaGrad(rate)
        spec = ModelSpec("dnn", fields=fields, hidden=(64, 32), batch_rows=256, dense=dense, seed=options.seed)
        found = [train(spec, rows, options.workers, mean=mean) for mean in (False, True)]
        cells.append((f"{rate:g}", *(f"{each:.4f}" for each in found)))
    print(align_columns(cells))


if __name__ == "__main__":
    run(main)
