"""Trainings with servers and workers in threads of this process, and the same trainings on one model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.helpers.sparse_servers import addresses_of, served

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.enriched import EnrichedModel
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.statistics import Statistics, StatisticsSettings
from bitlane.sparse.parameters.unique import unique_keys
from bitlane.sparse.servers.rounds import worker_name
from bitlane.sparse.servers.training import TrainingServers
from bitlane.sparse.workers.shards import create_shard, model_of
from bitlane.sparse.workers.worker import Worker, WorkerOptions


@dataclass
class Rows:
    """A source in memory: the minibatches of one worker."""

    batch: Batch

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        yield self.batch.slice(start, self.batch.rows)


@dataclass
class Scored:
    """Scores and labels that workers reported."""

    scores: list[Any] = field(default_factory=list)
    labels: list[Any] = field(default_factory=list)

    def add(self, scores: Any, labels: Any) -> None:
        self.scores.append(scores)
        self.labels.append(labels)


def make_model_shards(
    folder: Path, spec: ModelSpec, servers: int, statistics: StatisticsSettings | None = None
) -> list[Path]:
    folders = [folder / f"shard-{server}" for server in range(servers)]
    for server, each in enumerate(folders):
        model = SparseModel(spec)
        create_shard(each, EnrichedModel(model, Statistics(statistics)) if statistics else model, server, servers)
    return folders


def train(
    folders: Sequence[Path],
    spec: ModelSpec,
    shares: Sequence[Batch],
    options: WorkerOptions,
    stop_after: Callable[[int], bool] = lambda rows: False,
    statistics: StatisticsSettings | None = None,
    deadline: float = 30.0,
) -> tuple[Any, list[Worker], list[Scored]]:
    """Train with a worker for each share; return the model that the servers have then."""
    with served(folders) as found:
        addresses = addresses_of(found)
        with TrainingServers(addresses, worker="driver") as driver:
            driver.begin(len(shares), options.staleness)
        stop, workers, scored = threading.Event(), [], [Scored() for _ in shares]
        with ExitStack() as stack, ThreadPoolExecutor(len(shares)) as pool:
            for index, share in enumerate(shares):
                servers = stack.enter_context(TrainingServers(addresses, worker=worker_name(index), deadline=deadline))

                def take(scores: Any, batch: Batch, place: Any, index: int = index) -> None:
                    scored[index].add(scores, batch.labels)
                    if stop_after(sum(map(len, scored[index].labels))):
                        stop.set()

                workers.append(Worker(index, SparseModel(spec), servers, Rows(share), options, take, statistics))
            for running in [pool.submit(worker.run, stop) for worker in workers]:
                running.result()
    return model_of(spec, folders), workers, scored


def train_alone(
    spec: ModelSpec, shares: Sequence[Batch], epochs: int, first: Batch | None = None
) -> tuple[SparseModel, list[Scored]]:
    """The bulk-synchronous reference: at each clock all read the same model, and then step in the order of workers.

    `first` has the rows that set the intercept.
    """
    model, scored = SparseModel(spec), [Scored() for _ in shares]
    if first is not None:
        model.begin(first)
    size, clock = spec.batch_rows, 0
    todo = [
        [share.slice(at, at + size) for _ in range(epochs) for at in range(0, share.rows, size)] for share in shares
    ]
    while any(clock < len(each) for each in todo):
        steps = []
        for worker, each in enumerate(todo):
            if clock >= len(each):
                continue
            keys, index = unique_keys(each[clock].keys)
            weights = model.parameters.weights_of(model.parameters.peek(keys))
            scores, sparse, dense = model.gradients(each[clock], weights, index, model.pull_dense())
            scored[worker].add(scores, each[clock].labels)
            seen = round(sum(before.total_weight for before in each[:clock]) * len(shares))
            steps.append((keys, sparse, dense, seen))
        for keys, sparse, dense, seen in steps:
            model.parameters.push(keys, sparse, seen, create=True)
            for name, gradient in dense.items():
                model.matrices[name].push(gradient, seen)
        clock += 1
    return model, scored
