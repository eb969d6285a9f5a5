"""A worker that counts: its model's gradient of a key is minus the number of rows that have it.

With SGD of rate 1 each weight is then the number of times that workers have learned the key, whatever the order. As a
program, `python -m tests.helpers.counting_worker INDEX WORKERS STALENESS ADDRESS...`, it learns until SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Generator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.servers.rounds import worker_name
from bitlane.sparse.servers.spec import MatrixSpec, ShardSpec
from bitlane.sparse.servers.training import TrainingServers
from bitlane.sparse.workers.worker import Worker, WorkerOptions

SPEC = ShardSpec((ParameterBlock(1, SGD(1.0)),), matrices={"rows": MatrixSpec((1,), SGD(1.0))})
ROWS, BATCH_ROWS, EPOCHS = 3000, 10, 1000


def rows_of(index: int) -> Batch:
    """The rows of a worker: two keys each."""
    draw = np.random.default_rng(index)
    keys = draw.integers(0, 2000, 2 * ROWS).astype(np.uint64) ** np.uint64(5)
    ones = np.ones(2 * ROWS, np.float32)
    offsets = np.arange(ROWS + 1, dtype=np.int64) * 2
    return Batch(keys, np.zeros(2 * ROWS, np.uint16), ones, offsets, np.ones(ROWS, np.float32))


def counts_of(places: Sequence[dict[str, int]]) -> tuple[dict[int, int], int]:
    """What servers must hold when each worker is at its place: how often each key was learned, and how many rows."""
    counts: dict[int, int] = {}
    total = 0
    for index, place in enumerate(places):
        rows = place.get("epoch", 0) * ROWS + place.get("rows", 0)
        batch, total = rows_of(index), total + rows
        for part, times in ((batch, rows // ROWS), (batch.slice(0, rows % ROWS), 1)):
            for key, count in zip(*np.unique(part.keys, return_counts=True), strict=True):
                counts[int(key)] = counts.get(int(key), 0) + times * int(count)
    return {key: count for key, count in counts.items() if count}, total


class Counting:
    """What `Worker` needs of a model."""

    def __init__(self) -> None:
        self.spec = SimpleNamespace(batch_rows=BATCH_ROWS, loss="log_loss", seed=0)
        self.parameters = SparseParameters(SPEC.blocks)
        self.matrices = {"rows": Matrix((1,), SGD(1.0))}

    def gradients(self, batch: Batch, weights: Any, index: Any, dense: Any) -> Any:
        counts = np.bincount(index, minlength=len(weights)).astype(np.float32)
        return np.zeros(batch.rows, np.float32), -counts[:, None], {"rows": np.full(1, -batch.rows, np.float32)}


class Endless:
    """The rows of a worker, for many epochs, slowly."""

    def __init__(self, index: int):
        self._rows = rows_of(index)

    def batches(self, epoch: int, start: int = 0) -> Generator[Batch, None, None]:
        for at in range(start, self._rows.rows, BATCH_ROWS):
            yield self._rows.slice(at, at + BATCH_ROWS)


def main() -> None:
    index, workers, staleness, *addresses = sys.argv[1:]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    options = WorkerOptions(int(workers), staleness=int(staleness), epochs=EPOCHS)
    with TrainingServers(addresses, worker=worker_name(int(index)), deadline=120) as servers:
        model: Any = Counting()
        Worker(int(index), model, servers, Endless(int(index)), options, lambda *_: None).run(stop)


if __name__ == "__main__":
    main()
