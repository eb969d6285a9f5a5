"""Updates: what changes a shard, as requests, as records of the log, and applied to parameters."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.servers.counts import ShardCounts
from bitlane.sparse.servers.rounds import MOST_WORKERS, TrainingRounds
from bitlane.sparse.servers.steps import WorkerStep, no_floats

BEGIN, STEP = 5, 6
_HEAD = struct.Struct("<BxH4xQ8x")  # kind, bytes of the worker's name, sequence

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Update:
    """One change of a shard.

    Attributes
    ----------
    kind : int
        `BEGIN`: begin a training. `STEP`: what a worker has learned at a clock.
    worker : str
    sequence : int
        Counts the updates that the worker sends to this shard, from 1.
    payload : uint8 [n]
        Of a step (`WorkerStep`), or of the beginning of a training (`begin_payload`).
    """

    kind: int
    worker: str
    sequence: int
    payload: NDArray[np.uint8]

    @cached_property
    def step(self) -> WorkerStep:
        """The step that the payload describes."""
        return WorkerStep.from_bytes(self.payload)

    def buffers(self) -> list[Any]:
        """Return the record of the log: buffers that follow each other. They share the memory of the arrays."""
        name = self.worker.encode()
        return [_HEAD.pack(self.kind, len(name), self.sequence) + name, np.ascontiguousarray(self.payload).data]

    @classmethod
    def from_record(cls, record: memoryview) -> Update:
        """Return the update of a record.

        Raises
        ------
        DataError
            The record has another kind.
        """
        kind, size, sequence = _HEAD.unpack_from(record)
        if kind not in (BEGIN, STEP):
            raise DataError(f"an update of the log has the kind {kind}: another version of bitlane wrote it")
        start = _HEAD.size + size
        worker = bytes(record[_HEAD.size : start]).decode()
        return cls(kind, worker, sequence, np.frombuffer(record[start:], np.uint8).copy())

    def apply(
        self,
        parameters: SparseParameters,
        matrices: Mapping[str, Matrix],
        rounds: TrainingRounds,
        counts: ShardCounts | None = None,
    ) -> None:
        """Change the parameters. The same updates in the same order give the same bits."""
        due = rounds.begin(**json.loads(bytes(self.payload))) if self.kind == BEGIN else rounds.accept(self.step)
        apply_steps(due, parameters, matrices, rounds.workers, counts)

    def check(
        self,
        parameters: SparseParameters,
        matrices: Mapping[str, Matrix],
        rounds: TrainingRounds,
        counts: ShardCounts | None = None,
    ) -> None:
        """Raise DataError if `apply` would fail."""
        if self.kind == STEP:
            rounds.check(self.step)
            self.step.rows(parameters.layout.values)
            if len(self.step.dense):
                split_dense(self.step.dense, matrices)
            if self.step.oldest and not parameters.table.track_age:
                raise DataError("rows expire by their ages: the model needs track_age=True")
            if self.step.chunk is not None and counts is None:
                raise DataError("a step has counts of keys, but the model has no statistics")
        if not 0 < len(self.worker.encode()) <= 255:
            raise DataError(f"the name of a worker must have 1 to 255 bytes; got {self.worker!r}")


class PendingUpdate:
    """An update that waits for its commit."""

    def __init__(self, update: Update):
        self.update, self.done, self.last = update, False, 0
        self.error: Exception | None = None

    def fail(self, error: Exception) -> None:
        self.done, self.error = True, error


def begin_payload(workers: int, staleness: int, clock: int) -> NDArray[np.uint8]:
    """Return the payload of an update that begins a training; see `TrainingRounds.begin`.

    Raises
    ------
    DataError
    """
    if not 1 <= workers <= MOST_WORKERS:
        raise DataError(f"workers must be 1 to {MOST_WORKERS:,}; got {workers}")
    if staleness < 0:
        raise DataError(f"staleness must be at least 0; got {staleness}")
    text = json.dumps({"workers": workers, "staleness": staleness, "clock": clock})
    return np.frombuffer(text.encode(), np.uint8)


def apply_steps(
    due: Iterable[WorkerStep],
    parameters: SparseParameters,
    matrices: Mapping[str, Matrix],
    workers: int,
    counts: ShardCounts | None,
) -> None:
    """Take the steps of workers, one after the other."""
    table = parameters.table
    for step in due:
        if step.stamp > table.clock:
            table.tick(step.stamp)
        keys, gradients = step.rows(parameters.layout.values)
        parameters.push(keys, gradients, step.rows_seen, create=True)
        if len(step.dense):
            for name, gradient in split_dense(step.dense, matrices).items():
                matrices[name].push(gradient, step.rows_seen)
        if step.chunk is not None and counts is not None:
            counts.add(step.worker, step.chunk, workers)
        if step.oldest or step.drop_zeros:
            table.sweep(parameters.has_weight if step.drop_zeros else None, step.oldest or None)


def join_dense(arrays: Mapping[str, Floats]) -> Floats:
    """Return arrays side by side in the order of their names, float32 [n]."""
    return np.concatenate([no_floats(), *(np.asarray(arrays[name], np.float32).ravel() for name in sorted(arrays))])


def split_dense(values: Floats, shapes: Mapping[str, Any]) -> dict[str, Floats]:
    """Return the arrays that `join_dense` put side by side; `shapes` has, by name, something with a shape."""
    names = sorted(shapes)
    sizes = [int(np.prod(shapes[name].shape)) for name in names]
    if values.shape != (sum(sizes),):
        raise DataError(f"the matrices have {sum(sizes)} values; got {list(values.shape)}")
    arrays = np.split(values, np.cumsum(sizes)[:-1])
    return {name: array.reshape(shapes[name].shape) for name, array in zip(names, arrays, strict=False)}
