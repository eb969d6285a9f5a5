"""A step: all that one worker sends to one server for one clock, in bytes that the log keeps as they came."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.servers.counts import CountChunk
from bitlane.sparse.servers.row_codecs import decode_chunks

# index of the worker, whether it is the last step, whether rows of zeros go, clock, rows seen, stamp, oldest stamp that
# stays, bytes of the gradients, dense values, bytes of the offset
_HEAD = struct.Struct("<HBBqQIIIII")

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


def no_bytes() -> Bytes:
    """Return an empty array of bytes."""
    return np.zeros(0, np.uint8)


def no_floats() -> Floats:
    """Return an empty array of floats."""
    return np.zeros(0, np.float32)


@dataclass(frozen=True, eq=False)
class WorkerStep:
    """What a worker sends to a server when it has learned the minibatch of a clock.

    Attributes
    ----------
    worker : int
        Index of the worker.
    clock : int
        Clock of the minibatch: the step is stamped with it.
    gradients : uint8 [n]
        Of rows, by `row_codecs.encode_parts`. Absent keys are inserted before the step is taken.
    dense : float32 [m]
        Gradients of the server's matrices side by side; empty for none.
    rows_seen : int
        Weight of the rows that all workers have learned before, for rates that decay.
    stamp : int
        Clock of the table, for the ages of rows.
    oldest : int
        Rows with a smaller stamp are removed after the step; 0 keeps all.
    drop_zeros : bool
        Remove rows whose weights are all 0 after the step.
    last : bool
        The worker sends no more: others need not wait for it.
    counts : uint8 [m]
        What the minibatch adds to the statistics of this server's keys (`CountChunk`); empty for none.
    offset : dict
        Where the worker resumes reading after this minibatch: plain JSON.
    """

    worker: int
    clock: int
    gradients: Bytes = field(default_factory=no_bytes)
    dense: Floats = field(default_factory=no_floats)
    rows_seen: int = 0
    stamp: int = 0
    oldest: int = 0
    drop_zeros: bool = False
    last: bool = False
    offset: Mapping[str, Any] = field(default_factory=dict)
    counts: Bytes = field(default_factory=no_bytes)
    _decoded: list[tuple[NDArray[np.uint64], Floats]] = field(default_factory=list, repr=False)

    def to_bytes(self) -> Bytes:
        """Return the step as bytes, uint8 [n]."""
        offset = json.dumps(self.offset, separators=(",", ":")).encode()
        head = _HEAD.pack(
            self.worker,
            self.last,
            self.drop_zeros,
            self.clock,
            self.rows_seen,
            self.stamp,
            self.oldest,
            len(self.gradients),
            len(self.dense),
            len(offset),
        )
        buffers = (np.frombuffer(head + offset, np.uint8), self.gradients, self.dense.view(np.uint8), self.counts)
        return np.concatenate(buffers)

    @classmethod
    def from_bytes(cls, data: Bytes) -> WorkerStep:
        """Return the step of `to_bytes`.

        Raises
        ------
        DataError
            The bytes are no step.
        """
        try:
            worker, last, drop_zeros, clock, rows_seen, stamp, oldest, *sizes = _HEAD.unpack_from(data.data)
            gradients, dense, offset = sizes
            at = _HEAD.size + offset
            end = at + gradients + 4 * dense
            if len(data) < end:
                raise DataError(f"a step of {end} bytes has {len(data)}")
            return cls(
                worker,
                clock,
                data[at : at + gradients],
                data[at + gradients : end].copy().view(np.float32),
                rows_seen,
                stamp,
                oldest,
                bool(drop_zeros),
                bool(last),
                json.loads(bytes(data[_HEAD.size : at])),
                data[end:],
            )
        except (struct.error, ValueError) as error:
            raise DataError(f"not a step of bitlane: {error}") from error

    @cached_property
    def chunk(self) -> CountChunk | None:
        """What the step adds to the statistics; errors as of `CountChunk.from_bytes`."""
        return CountChunk.from_bytes(self.counts) if len(self.counts) else None

    def rows(self, values: int) -> tuple[NDArray[np.uint64], Floats]:
        """Return the keys, uint64 [n], and their gradients, float32 [n, values]; errors as of `decode_chunks`."""
        if not self._decoded:
            empty = np.zeros(0, np.uint64), np.zeros((0, values), np.float32)
            self._decoded.append(decode_chunks(self.gradients, values) if len(self.gradients) else empty)
        return self._decoded[0]
