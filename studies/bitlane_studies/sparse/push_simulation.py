"""A training by workers and servers within one process, which counts the bytes of the workers' pushes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.unique import unique_keys
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.servers.row_codecs import Part, encode_parts
from bitlane.sparse.training.windows import auc
from bitlane.sparse.workers.pushing import Pusher, PushSettings

CHECKS = 2  # of the held-out AUC, an epoch
_FALL = 0.002  # of the AUC below its best, at which a training ends


@dataclass(frozen=True)
class Cluster:
    """The workers, the servers and what they do in a clock.

    Attributes
    ----------
    workers, servers : int
    rows : int
        Of a worker's minibatch.
    grouped : bool
        Round each block of a row on its own.
    """

    workers: int = 4
    servers: int = 2
    rows: int = 1024
    grouped: bool = True


@dataclass(frozen=True)
class Point:
    """A check of the held-out AUC.

    Attributes
    ----------
    epochs : float
        Passes over the data so far.
    bytes : int
        Of all pushes so far.
    auc : float
    """

    epochs: float
    bytes: int
    auc: float


@dataclass(frozen=True)
class Trajectory:
    """A training.

    Attributes
    ----------
    points : tuple of Point
    clocks : int
        Of the training.
    residual_rows : int
        Most rows that a worker kept.
    evicted_share, sent_share : float
        Of the workers' rows of gradients: what left for want of room; what was sent in all.
    """

    points: tuple[Point, ...]
    clocks: int
    residual_rows: int
    evicted_share: float
    sent_share: float

    @property
    def best(self) -> Point:
        """The check with the highest AUC."""
        return max(self.points, key=lambda point: point.auc)

    def reach(self, wanted: float) -> Point | None:
        """Return the first check with an AUC of at least `wanted`."""
        return next((point for point in self.points if point.auc >= wanted), None)

    @property
    def bytes_per_clock(self) -> float:
        """Bytes of all workers' pushes in a clock, on average."""
        return self.points[-1].bytes / self.clocks


def simulate(
    spec: ModelSpec,
    settings: PushSettings,
    parts: tuple[Batch, Batch],
    *,
    epochs: int,
    wanted: float = 1.0,
    most_bytes: float = np.inf,
    cluster: Cluster = Cluster(),
) -> Trajectory:
    """Train until `wanted` is reached, the AUC falls, or `epochs` or `most_bytes` are over.

    In each clock all workers pull the same weights and compute their gradients; then their pushes are applied, worker
    after worker. Messages are as long as `encode_parts` makes them; rows apply as the servers decode them.

    Parameters
    ----------
    spec : ModelSpec
    settings : PushSettings
    parts : pair of Batch
        Rows to train on, and those that are held out.
    epochs : int
    wanted : float, default=1.0
        Held-out AUC.
    most_bytes : float, optional
        Of all pushes.
    cluster : Cluster, optional
    """
    train, held_out = parts
    model, partition = SparseModel(spec), Partition(cluster.servers)
    layout = model.parameters.layout
    groups = [block.size for block in layout.blocks] if cluster.grouped else None
    pushers = [Pusher(settings, layout.values, 1 + worker, groups) for worker in range(cluster.workers)]
    rows = cluster.workers * cluster.rows
    clocks, points, kept, sent, best = train.rows // rows, list[Point](), 0, 0, 0.0
    checks = {clocks * (i + 1) // CHECKS for i in range(CHECKS)}
    done = 0
    for epoch in range(epochs):
        shuffled = train.take(np.random.default_rng((spec.seed, epoch)).permutation(train.rows))
        for clock in range(clocks):
            batch = shuffled.slice(clock * rows, (clock + 1) * rows)
            for parts_sent in list(_push(model, pushers, batch, cluster.rows)):
                sent += message_bytes(parts_sent, partition, settings.pack_keys)
                for part in parts_sent:
                    model.parameters.push(part.keys, part.gradients(), model.rows_seen)
            model.rows_seen += rows
            done += 1
            kept = max(kept, *(pusher.residual_rows for pusher in pushers))
            if clock + 1 in checks:
                points.append(Point(done / clocks, sent, auc(model.scores(held_out), held_out.labels) or 0.0))
                best = max(best, points[-1].auc)
                if points[-1].auc >= wanted or points[-1].auc < best - _FALL or sent > most_bytes:
                    return _trajectory(points, done, kept, pushers)
    return _trajectory(points, done, kept, pushers)


def message_bytes(parts: list[Part], partition: Partition, pack_keys: bool) -> int:
    """Return the bytes of a worker's messages to all servers."""
    split = [(part, *partition.split(part.keys)) for part in parts]
    total = 0
    for server in range(partition.servers):
        own = [part.take(places[bounds[server] : bounds[server + 1]]) for part, places, bounds in split]
        total += len(encode_parts(own, pack_keys=pack_keys))
    return total


def _push(model: SparseModel, pushers: list[Pusher], batch: Batch, rows: int) -> Iterator[list[Part]]:
    """Yield what each worker sends; then push the mean of the workers' dense gradients."""
    dense, sums = model.pull_dense(), {name: matrix.pull() * 0 for name, matrix in model.matrices.items()}
    for worker, pusher in enumerate(pushers):
        part = batch.slice(worker * rows, (worker + 1) * rows)
        keys, index = unique_keys(part.keys)
        weights: NDArray[np.float32] = model.parameters.pull(keys, create=True)
        _, gradients, means = model.gradients(part, weights, index, dense)
        sums = {name: sums[name] + means[name] for name in sums}
        yield pusher.choose(keys, gradients)
    for name, total in sums.items():
        model.matrices[name].push(total / np.float32(len(pushers)), model.rows_seen)


def _trajectory(points: list[Point], clocks: int, kept: int, pushers: list[Pusher]) -> Trajectory:
    received = sum(pusher.rows_received for pusher in pushers)
    evicted, sent = (sum(getattr(each, name) for each in pushers) for name in ("rows_evicted", "rows_sent"))
    return Trajectory(tuple(points), clocks, kept, evicted / received, sent / received)
