"""Updates: what changes a shard, as requests, as records of the log, and applied to parameters."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.servers.rounds import MOST_WORKERS, Rounds
from bitlane.sparse.servers.steps import Step, no_bytes, no_floats

CREATE, PUSH, PUSH_DENSE, TICK, BEGIN, STEP = 1, 2, 3, 4, 5, 6
_HEAD = struct.Struct("<BxHIQq")  # kind, bytes of the worker's name, keys, sequence, rows seen or clock

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]


def _no_keys() -> Keys:
    return np.zeros(0, np.uint64)


@dataclass(frozen=True, eq=False)
class Update:
    """One change of a shard.

    Attributes
    ----------
    kind : int
        `CREATE`: insert keys, each a sighting. `PUSH`: a step for keys. `PUSH_DENSE`: a step for all matrices.
        `TICK`: set the table's clock. `BEGIN`: begin a training. `STEP`: what a worker has learned at a clock.
    worker : str
    sequence : int
        Counts the updates that the worker sends to this shard, from 1.
    rows_seen : int
        Of a push: rows that the model has learned before. Of a tick: the clock.
    keys : uint64 [n]
        Distinct.
    gradients : float32
        Of a push [n, values]; of a dense push those of all matrices side by side, in the order of their names.
    payload : uint8 [n]
        Of a step (`Step`), or of the beginning of a training (`begin_payload`).
    """

    kind: int
    worker: str
    sequence: int
    rows_seen: int = 0
    keys: Keys = field(default_factory=_no_keys)
    gradients: Floats = field(default_factory=no_floats)
    payload: NDArray[np.uint8] = field(default_factory=no_bytes)

    @cached_property
    def step(self) -> Step:
        """The step that the payload describes."""
        return Step.from_bytes(self.payload)

    def buffers(self) -> list[Any]:
        """Return the record of the log: buffers that follow each other. They share the memory of the arrays."""
        name = self.worker.encode()
        head = _HEAD.pack(self.kind, len(name), len(self.keys), self.sequence, self.rows_seen)
        return [head + name, _bytes_of(self.keys), _bytes_of(self.gradients), _bytes_of(self.payload)]

    @classmethod
    def from_record(cls, record: memoryview, values: int) -> Update:
        """Return the update of a record; `values` is the number of weights of a row."""
        kind, name, count, sequence, rows_seen = _HEAD.unpack_from(record)
        at = _HEAD.size + name
        worker = bytes(record[_HEAD.size : at]).decode()
        if kind in (BEGIN, STEP):
            return cls(kind, worker, sequence, rows_seen, payload=np.frombuffer(record[at:], np.uint8).copy())
        keys = np.frombuffer(record[at : at + 8 * count], np.uint64).copy()
        gradients = np.frombuffer(record[at + 8 * count :], np.float32).copy()
        if kind == PUSH:
            gradients = gradients.reshape(count, values)
        return cls(kind, worker, sequence, rows_seen, keys, gradients)

    def apply(self, parameters: SparseParameters, matrices: Mapping[str, Matrix], rounds: Rounds) -> None:
        """Change the parameters. The same updates in the same order give the same bits."""
        if self.kind == CREATE:
            parameters.table.find_or_insert(self.keys)
        elif self.kind == PUSH:
            parameters.push(self.keys, self.gradients, self.rows_seen)
        elif self.kind == PUSH_DENSE:
            _push_dense(self.gradients, matrices, self.rows_seen)
        elif self.kind == TICK:
            parameters.table.tick(self.rows_seen)
        else:
            due = rounds.begin(**json.loads(bytes(self.payload))) if self.kind == BEGIN else rounds.accept(self.step)
            apply_steps(due, parameters, matrices)

    def check(self, parameters: SparseParameters, matrices: Mapping[str, Matrix], rounds: Rounds) -> None:
        """Raise DataError if `apply` would fail."""
        count, values = len(self.keys), parameters.layout.values
        if self.kind == PUSH and self.gradients.shape != (count, values):
            raise DataError(f"{count} keys need gradients [{count}, {values}]; got {list(self.gradients.shape)}")
        if self.kind == PUSH_DENSE:
            split_dense(self.gradients, matrices)
        if self.kind == TICK and not 0 <= self.rows_seen < 1 << 32:
            raise DataError(f"the clock of a table must be 0 to 2^32 - 1; got {self.rows_seen}")
        if self.kind == STEP:
            rounds.check(self.step)
            self.step.rows(values)
            if len(self.step.dense):
                split_dense(self.step.dense, matrices)
            if self.step.oldest and not parameters.table.track_age:
                raise DataError("rows expire by their ages: the model needs track_age=True")
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
    """Return the payload of an update that begins a training; see `Rounds.begin`.

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


def apply_steps(steps: Iterable[Step], parameters: SparseParameters, matrices: Mapping[str, Matrix]) -> None:
    """Take the steps of workers, one after the other."""
    table = parameters.table
    for step in steps:
        if step.stamp > table.clock:
            table.tick(step.stamp)
        keys, gradients = step.rows(parameters.layout.values)
        parameters.push(keys, gradients, step.rows_seen, create=True)
        if len(step.dense):
            _push_dense(step.dense, matrices, step.rows_seen)
        if step.oldest or step.drop_zeros:
            table.sweep(parameters.has_weight if step.drop_zeros else None, step.oldest or None)


def _push_dense(gradients: Floats, matrices: Mapping[str, Matrix], rows_seen: int) -> None:
    for name, gradient in split_dense(gradients, matrices).items():
        matrices[name].push(gradient, rows_seen)


def join_dense(arrays: Mapping[str, Floats]) -> Floats:
    """Return arrays side by side in the order of their names, float32 [n]."""
    return np.concatenate([no_floats(), *(np.asarray(arrays[name], np.float32).ravel() for name in sorted(arrays))])


def split_dense(values: Floats, shapes: Mapping[str, Any]) -> dict[str, Floats]:
    """Return the arrays that `join_dense` put side by side; `shapes` has, by name, something with a shape."""
    names = sorted(shapes)
    sizes = [int(np.prod(shapes[name].shape)) for name in names]
    if values.shape != (sum(sizes),):
        raise DataError(f"the matrices have {sum(sizes)} values; got {list(values.shape)}")
    parts = np.split(values, np.cumsum(sizes)[:-1])
    return {name: part.reshape(shapes[name].shape) for name, part in zip(names, parts, strict=False)}


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
