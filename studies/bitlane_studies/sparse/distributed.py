"""Servers and workers against one machine: `python -m bitlane_studies.sparse.distributed goodbooks generated`.

An FM is trained by 2 servers and 4 workers on Ray, with staleness 0 and 2, and beside it by one process. The reference
of one process does what bulk-synchronous workers do, without servers: at each clock the gradients of four minibatches
are computed from the same weights, and four steps follow in the order of the workers. With staleness 0 the model must
have the same bits. "online" is `bitlane sparse train` with its defaults: row after row.

Printed are AUC of held-out rows after the last epoch, for each seed, and rows a second from the call to the model,
start of all processes included.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.cli.argument_types import integers, positive
from bitlane.errors import BitlaneError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.source import open_source
from bitlane.sparse.engines.engine import RayOptions, RayTrainer
from bitlane.sparse.generator.click_log import ClickLog
from bitlane.sparse.generator.settings import ClickLogSettings
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.unique import unique_keys
from bitlane.sparse.training.windows import auc
from bitlane.sparse.workers.minibatches import learned_before, minibatches
from bitlane.sparse.workers.shards import new_model
from bitlane.sparse.workers.worker import WorkerOptions
from bitlane.support.text import align_columns
from bitlane_studies.sparse.quality import train_and_test
from bitlane_studies.sparse.rows import write_npz

SERVERS, WORKERS = 2, 4
STALENESS = (0, 2)
GENERATED = "generated"
GENERATED_ROWS, HELD_OUT = 1_000_000, 100_000


@dataclass(frozen=True)
class Trained:
    """One training: the model, and its seconds."""

    model: SparseModel
    seconds: float


def rows_of(name: str) -> tuple[Batch, Batch]:
    """Return the rows of a data set to train on, in random order, and those that are held out."""
    if name == GENERATED:
        log = ClickLog(ClickLogSettings())
        return log.batch(0, GENERATED_ROWS), log.batch(GENERATED_ROWS, HELD_OUT)
    train, test = train_and_test(name)
    return train.take(np.random.default_rng(0).permutation(train.rows)), test


def share_of(path: str, index: int, offset: Mapping[str, Any]) -> Any:
    """Open the rows of one worker."""
    return open_source(path, share=(index, WORKERS))


def on_ray(spec: ModelSpec, path: str, epochs: int, staleness: int) -> Trained:
    """Train with servers and workers."""
    options = RayOptions(WorkerOptions(WORKERS, staleness, epochs), SERVERS)
    begin = time.perf_counter()
    result = RayTrainer(spec, partial(share_of, path), options).run()
    assert isinstance(result.model, SparseModel)
    return Trained(result.model, time.perf_counter() - begin)


def learn_clock(model: SparseModel, batches: Sequence[Batch], seen: Sequence[int]) -> list[NDArray[np.float32]]:
    """Learn the minibatches of a clock, one of each worker; return the scores of each before.

    All gradients are those of the same weights; the steps follow in the order of the workers.

    Parameters
    ----------
    model : SparseModel
    batches : sequence of Batch
    seen : sequence of int
        Rows that count as learned before each minibatch.
    """
    all_scores, steps = [], []
    for batch, rows_seen in zip(batches, seen, strict=True):
        keys, index = unique_keys(batch.keys)
        weights = model.parameters.weights_of(model.parameters.peek(keys))
        scores, sparse, dense = model.gradients(batch, weights, index, model.pull_dense())
        all_scores.append(scores)
        steps.append((keys, sparse, dense, rows_seen))
    for keys, sparse, dense, rows_seen in steps:
        model.parameters.push(keys, sparse, rows_seen, create=True)
        for name, gradient in dense.items():
            model.matrices[name].push(gradient, rows_seen)
    return all_scores


def in_order(spec: ModelSpec, path: str, epochs: int) -> Trained:
    """Train in this process, clock after clock, as bulk-synchronous workers do."""
    begin, model = time.perf_counter(), new_model(spec, share_of(path, 0, {}))
    shares = [minibatches(share_of(path, index, {}), spec.batch_rows, epochs, {}) for index in range(WORKERS)]
    while clock := [each for share in shares if (each := next(share, None)) is not None]:
        seen = [(learned_before(offset) - batch.rows) * WORKERS for batch, offset in clock]
        learn_clock(model, [batch for batch, _ in clock], seen)
    return Trained(model, time.perf_counter() - begin)


def alone(spec: ModelSpec, path: str, epochs: int) -> Trained:
    """Train in this process as `bitlane sparse train` does."""
    begin, model = time.perf_counter(), new_model(spec, open_source(path))
    for epoch in range(epochs):
        for batch in open_source(path).batches(epoch):
            model.learn(batch)
    return Trained(model, time.perf_counter() - begin)


def same_bits(one: SparseModel, other: SparseModel) -> bool:
    """Return whether two models have the same keys, rows and matrices."""

    def arrays(model: SparseModel) -> list[Any]:
        chunks = list(model.parameters.table.items())
        keys, rows = (np.concatenate([chunk[place] for chunk in chunks]) for place in (0, 1))
        order = np.argsort(keys)
        return [keys[order], rows[order], *(model.matrices[name].row for name in sorted(model.matrices))]

    return all(left.tobytes() == right.tobytes() for left, right in zip(arrays(one), arrays(other), strict=True))


def measure(name: str, seeds: Sequence[int], epochs: int, batch_rows: int) -> list[tuple[str, ...]]:
    """Return the lines of the table for a data set."""
    train, test = rows_of(name)
    aucs: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    equal = []
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "rows.npz"))
        write_npz(train, Path(path))
        for seed in seeds:
            spec = ModelSpec("fm", batch_rows=batch_rows, seed=seed)
            ways: dict[str, Callable[[], Trained]] = {
                "one process, online": partial(alone, ModelSpec("fm", seed=seed), path, epochs),
                "one process, in the workers' order": partial(in_order, spec, path, epochs),
                **{
                    f"{SERVERS} servers x {WORKERS} workers, staleness {each}": partial(
                        on_ray, spec, path, epochs, each
                    )
                    for each in STALENESS
                },
            }
            trained = {way: run() for way, run in ways.items()}
            _, reference, bulk, *_ = (each.model for each in trained.values())
            equal.append(same_bits(reference, bulk))
            for way, each in trained.items():
                value = auc(each.model.scores(test), test.labels)
                aucs.setdefault(way, []).append(float("nan") if value is None else value)
                rates.setdefault(way, []).append(train.rows * epochs / each.seconds)
    verdict = "staleness 0: same bits" if all(equal) else "staleness 0: OTHER BITS"
    return [(name, way, *(f"{each:.4f}" for each in aucs[way]), f"{np.median(rates[way]):,.0f}") for way in aucs] + [
        (name, verdict, *[""] * (len(seeds) + 1))
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Train all ways and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_studies.sparse.distributed", description="Servers and workers against one machine."
    )
    parser.add_argument("data", nargs="*", default=[GENERATED], help=f"data sets, or {GENERATED} (default: that)")
    parser.add_argument("--epochs", type=positive, default=3, metavar="N", help="passes (default: 3)")
    parser.add_argument("--batch-rows", type=positive, default=256, metavar="N", help="of a minibatch (default: 256)")
    parser.add_argument("--seeds", type=integers, default=[0, 1, 2], metavar="N,N", help="default: 0,1,2")
    arguments = parser.parse_args(argv)
    cells: list[tuple[str, ...]] = [("data", "way", *(f"AUC, seed {each}" for each in arguments.seeds), "rows/s")]
    try:
        for name in arguments.data:
            cells += measure(name, arguments.seeds, arguments.epochs, arguments.batch_rows)
    except BitlaneError as error:
        raise SystemExit(f"error: {error}") from error
    print(align_columns(cells))


if __name__ == "__main__":
    main()
