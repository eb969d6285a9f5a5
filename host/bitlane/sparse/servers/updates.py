"""Updates: what changes a shard, as requests, as records of the log, and applied to parameters."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.sparse import SparseParameters

CREATE, PUSH, PUSH_DENSE, TICK = 1, 2, 3, 4
_HEAD = struct.Struct("<BxHIQq")  # kind, bytes of the worker's name, keys, sequence, rows seen or clock

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]


def _no_keys() -> Keys:
    return np.zeros(0, np.uint64)


def _no_floats() -> Floats:
    return np.zeros(0, np.float32)


@dataclass(frozen=True, eq=False)
class Update:
    """One change of a shard.

    Attributes
    ----------
    kind : int
        `CREATE`: insert keys, each a sighting. `PUSH`: a step for keys. `PUSH_DENSE`: a step for all matrices.
        `TICK`: set the table's clock.
    worker : str
    sequence : int
        Counts the updates that the worker sends to this shard, from 1.
    rows_seen : int
        Of a push: rows that the model has learned before. Of a tick: the clock.
    keys : uint64 [n]
        Distinct.
    gradients : float32
        Of a push [n, values]; of a dense push those of all matrices side by side, in the order of their names.
    """

    kind: int
    worker: str
    sequence: int
    rows_seen: int = 0
    keys: Keys = field(default_factory=_no_keys)
    gradients: Floats = field(default_factory=_no_floats)

    def buffers(self) -> list[Any]:
        """Return the record of the log: buffers that follow each other. They share the memory of the arrays."""
        name = self.worker.encode()
        head = _HEAD.pack(self.kind, len(name), len(self.keys), self.sequence, self.rows_seen)
        return [head + name, _bytes_of(self.keys), _bytes_of(self.gradients)]

    @classmethod
    def from_record(cls, record: memoryview, values: int) -> Update:
        """Return the update of a record; `values` is the number of weights of a row."""
        kind, name, count, sequence, rows_seen = _HEAD.unpack_from(record)
        at = _HEAD.size + name
        worker = bytes(record[_HEAD.size : at]).decode()
        keys = np.frombuffer(record[at : at + 8 * count], np.uint64).copy()
        gradients = np.frombuffer(record[at + 8 * count :], np.float32).copy()
        if kind == PUSH:
            gradients = gradients.reshape(count, values)
        return cls(kind, worker, sequence, rows_seen, keys, gradients)

    def apply(self, parameters: SparseParameters, matrices: Mapping[str, Matrix]) -> None:
        """Change the parameters. The same updates in the same order give the same bits."""
        if self.kind == CREATE:
            parameters.table.find_or_insert(self.keys)
        elif self.kind == PUSH:
            parameters.push(self.keys, self.gradients, self.rows_seen)
        elif self.kind == PUSH_DENSE:
            for name, gradient in split_dense(self.gradients, matrices).items():
                matrices[name].push(gradient, self.rows_seen)
        else:
            parameters.table.tick(self.rows_seen)

    def check(self, parameters: SparseParameters, matrices: Mapping[str, Matrix]) -> None:
        """Raise DataError if `apply` would fail."""
        count, values = len(self.keys), parameters.layout.values
        if self.kind == PUSH and self.gradients.shape != (count, values):
            raise DataError(f"{count} keys need gradients [{count}, {values}]; got {list(self.gradients.shape)}")
        if self.kind == PUSH_DENSE:
            split_dense(self.gradients, matrices)
        if self.kind == TICK and not 0 <= self.rows_seen < 1 << 32:
            raise DataError(f"the clock of a table must be 0 to 2^32 - 1; got {self.rows_seen}")
        if not 0 < len(self.worker.encode()) <= 255:
            raise DataError(f"the name of a worker must have 1 to 255 bytes; got {self.worker!r}")


def join_dense(arrays: Mapping[str, Floats]) -> Floats:
    """Return arrays side by side in the order of their names, float32 [n]."""
    return np.concatenate([_no_floats(), *(np.asarray(arrays[name], np.float32).ravel() for name in sorted(arrays))])


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
