"""The servers of a model, as a worker of a training and its driver see them: reads at a clock, and steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.parameters.layout import Block, Layout
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.group import Call, ServerGroup
from bitlane.sparse.servers.key_codec import encode_keys
from bitlane.sparse.servers.row_codecs import Part, decode_rows, encode_parts
from bitlane.sparse.servers.steps import Step
from bitlane.sparse.servers.updates import join_dense

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Resumption:
    """Where a worker goes on.

    Attributes
    ----------
    number : int
        Number of its next step, from 1.
    clock : int
        Clock of its next minibatch.
    place : dict
        Place in its rows; empty at the beginning.
    """

    number: int
    clock: int
    place: Mapping[str, Any]


@dataclass(frozen=True)
class RemoteRead:
    """What a worker reads from all servers.

    Attributes
    ----------
    rows : float32 [n, values] or [n, width]
        Of the keys: weights, or whole rows.
    own : int64 [n]
        Number of the worker's last step that each row contains.
    dense : dict of float32 arrays
        By name: the weights of a matrix, or its whole row.
    dense_own : dict of int
        As `own`, for each matrix.
    clock : int
        All steps stamped below it are contained.
    nbytes : int
        Of the requests and the answers.
    """

    rows: Floats
    own: NDArray[np.int64]
    dense: dict[str, Floats]
    dense_own: dict[str, int]
    clock: int
    nbytes: int


class TrainingServers(ServerGroup):
    """The servers of a model that workers train. See `ServerGroup`."""

    def begin(self, workers: int, staleness: int) -> None:
        """Begin a training, or go on with one, before its workers come; called by the driver alone.

        Parameters
        ----------
        workers : int
        staleness : int
            By how many clocks a worker may be ahead of another.

        Raises
        ------
        BitlaneError
            No answer before the deadline, or an error of a server.
        """
        clock = max(int(each["clock"]) for each in self._greetings)
        what = {"begin": {"workers": workers, "staleness": staleness, "clock": clock}}
        self._update([Call(server, "begin", None, dict(what)) for server in range(len(self._updaters))])

    def resumption(self) -> Resumption:
        """Return where this worker goes on: behind its last step that all servers have."""
        first = min(self._greetings, key=lambda each: int(each["last"]))
        return Resumption(int(first["last"]) + 1, int(first["clock"]), first["place"])

    def read(self, keys: Keys, clock: int, *, whole: bool, codec: str = "float32") -> RemoteRead:
        """Return the rows of `keys`, uint64 [n], distinct and ascending, and all matrices, at a clock.

        Waits for other workers as long as the staleness asks, and for servers that are away; until the deadline.

        Parameters
        ----------
        keys : uint64 [n]
        clock : int
        whole : bool
            With the optimizers' state.
        codec : str, default="float32"
            Of rows; see `row_codecs.encode_rows`. Matrices come as float32.

        Raises
        ------
        BitlaneError
            No answer before the deadline, or an error of a server.
        """
        places, bounds = self._partition.split(keys)
        grouped = keys[places]
        calls, count = [], 0
        for server in range(len(self._readers)):
            part = grouped[bounds[server] : bounds[server + 1]]
            request = {"clock": clock, "keys": len(part), "whole": whole, "codec": codec}
            data = encode_keys(part)
            count += len(data)
            calls.append(Call(server, "read", wire.byte_batch(data), request))
        with self._reading:
            self._exchange(self._readers, calls)
        width = self.layout.width if whole else self.layout.values
        rows, own = np.empty((len(keys), width), np.float32), np.empty(len(keys), np.int64)
        dense: dict[str, Floats] = {}
        dense_own: dict[str, int] = {}
        for server, call in enumerate(calls):
            at = places[bounds[server] : bounds[server + 1]]
            data = wire.array_of(call.answer, 0, np.uint8)
            count += len(data)
            end = len(data) - 4 * call.found["dense"]
            rows[at] = decode_rows(data[:end], len(at), width, codec)
            own[at] = call.found["own"]
            dense.update(self._split_dense(server, data[end:].copy().view(np.float32), whole))
            dense_own.update(dict.fromkeys(self._matrices[server], int(call.found["own"])))
        return RemoteRead(rows, own, dense, dense_own, min(int(call.found["clock"]) for call in calls), count)

    def step(self, number: int, step: Step, parts: Sequence[Part], dense: Mapping[str, Floats], *, pack: bool) -> int:
        """Send a step to all servers, each its own part; return the bytes of the messages.

        Parameters
        ----------
        number : int
            Of the step, from 1: equal for all servers. A server that has the step leaves it out.
        step : Step
            All but the gradients.
        parts : sequence of Part
            Gradients of rows. No key comes twice.
        dense : dict of float32 arrays
            Gradients of matrices, by name: all or none.
        pack : bool
            Send the differences of sorted keys instead of keys.

        Raises
        ------
        BitlaneError
            No answer before the deadline, or an error of a server. The update is kept; see `ServerGroup`.
        """
        split = [self._partition.split(part.keys) for part in parts]
        calls, count = [], 0
        for server in range(len(self._updaters)):
            mine = [
                part.take(places[at[server] : at[server + 1]]) for part, (places, at) in zip(parts, split, strict=True)
            ]
            own = join_dense({name: dense[name] for name in self._matrices[server]}) if dense else step.dense
            data = replace(step, gradients=encode_parts(mine, pack_keys=pack), dense=own).to_bytes()
            calls.append(Call(server, "step", wire.byte_batch(data), {"sequence": number}))
            count += len(data)
        self._update(calls)
        return count

    def _split_dense(self, server: int, values: Floats, whole: bool) -> dict[str, Floats]:
        found, at = {}, 0
        for name, each in sorted(self._matrices[server].items()):
            size = int(np.prod(each.shape))
            size = Layout([Block(size, each.optimizer)]).width if whole else size
            found[name] = values[at : at + size]
            at += size
        return found
