"""The servers of a model, as a worker of a training and its driver see them: reads at a clock, and steps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.parameters.counting import WEIGHT, WIDTH
from bitlane.sparse.parameters.layout import Layout, ParameterBlock
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.counts import CountChunk, decay_between
from bitlane.sparse.servers.group import Call, ServerGroup
from bitlane.sparse.servers.key_codec import encode_keys
from bitlane.sparse.servers.reads import CountsWanted
from bitlane.sparse.servers.row_codecs import GradientChunk, decode_rows, encode_chunks
from bitlane.sparse.servers.steps import WorkerStep
from bitlane.sparse.servers.updates import join_dense

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Resumption:
    """Where a worker resumes.

    Attributes
    ----------
    number : int
        Number of its next step, from 1.
    clock : int
        Clock of its next minibatch.
    offset : dict
        Offset in its rows; empty at the beginning.
    """

    number: int
    clock: int
    offset: Mapping[str, Any]


@dataclass(frozen=True)
class RemoteRead:
    """What a worker reads from all servers.

    Attributes
    ----------
    rows : float32 [n, values] or [n, width]
        Of the keys: weights, or rows with the optimizers' state.
    own : int64 [n]
        Number of the worker's last step that each row contains.
    dense : dict of float32 arrays
        By name: the weights of a matrix, or its row with the optimizers' state.
    dense_own : dict of int
        As `own`, for each matrix.
    clock : int
        All steps stamped below it are contained.
    nbytes : int
        Of the requests and the answers.
    counts : float32 [m, 4]
        Of statistics, by the totals of server 0: see `ShardCounts.read`.
    totals : dict
        Of all rows counted; empty without statistics.
    """

    rows: Floats
    own: NDArray[np.int64]
    dense: dict[str, Floats]
    dense_own: dict[str, int]
    clock: int
    nbytes: int
    counts: Floats = field(default_factory=lambda: np.zeros((0, WIDTH), np.float32))
    totals: Mapping[str, Any] = field(default_factory=dict)


class TrainingServers(ServerGroup):
    """The servers of a model that workers train. See `ServerGroup`."""

    def begin(self, workers: int, staleness: int) -> None:
        """Begin or resume a training, before its workers connect; only the driver calls it.

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
        """Return where this worker resumes: after its last step that all servers have."""
        first = min(self._greetings, key=lambda each: int(each["last"]))
        return Resumption(int(first["last"]) + 1, int(first["clock"]), first["offset"])

    def read(
        self,
        keys: Keys,
        clock: int,
        *,
        with_state: bool,
        codec: str = "float32",
        wanted: CountsWanted | None = None,
    ) -> RemoteRead:
        """Return the rows of `keys`, uint64 [n], distinct and ascending, and all matrices, at a clock.

        Waits, until the deadline, for other workers as the staleness requires, and for servers that restart.

        Parameters
        ----------
        keys : uint64 [n]
        clock : int
        with_state : bool
            With the optimizers' state.
        codec : str, default="float32"
            Of rows; see `row_codecs.encode_rows`. Matrices come as float32.
        wanted : CountsWanted, optional
            Of statistics.

        Raises
        ------
        BitlaneError
            No answer before the deadline, or an error of a server.
        """
        indices, bounds = self._partition.split(keys)
        grouped = keys[indices]
        calls, count = [], 0
        mine = [] if wanted is None else self._indices(wanted.words)
        for server in range(len(self._readers)):
            own_keys = grouped[bounds[server] : bounds[server + 1]]
            request = {"clock": clock, "keys": len(own_keys), "with_state": with_state, "codec": codec}
            data = encode_keys(own_keys)
            if wanted is not None:
                words = wanted.words[mine[server]]
                request |= {"key_bytes": len(data), "words": len(words), "epoch": wanted.epoch}
                data = np.concatenate([data, encode_keys(words)])
            count += len(data)
            calls.append(Call(server, "read", wire.byte_batch(data), request))
        with self._reading:
            self._exchange(self._readers, calls)
        statistics = self.spec.statistics
        width = self.layout.width if with_state else self.layout.values
        rows, own = np.empty((len(keys), width), np.float32), np.empty(len(keys), np.int64)
        dense: dict[str, Floats] = {}
        dense_own: dict[str, int] = {}
        counts = np.zeros((0 if wanted is None else len(wanted.words), WIDTH), np.float32)
        totals: Mapping[str, Any] = calls[0].reply.get("totals", {})
        for server, call in enumerate(calls):
            at = indices[bounds[server] : bounds[server + 1]]
            data = wire.array_of(call.answer, 0, np.uint8)
            count += len(data)
            if wanted is not None:
                data, found = np.split(data, [len(data) - 4 * WIDTH * len(mine[server])])
                counts[mine[server]] = found.copy().view(np.float32).reshape(-1, WIDTH)
                factor = 1.0 if statistics is None else decay_between(call.reply["totals"], totals, statistics)
                counts[mine[server], WEIGHT:] *= np.float32(factor)
            end = len(data) - 4 * call.reply["dense"]
            rows[at] = decode_rows(data[:end], len(at), width, codec)
            own[at] = call.reply["own"]
            dense.update(self._split_dense(server, data[end:].copy().view(np.float32), with_state))
            dense_own.update(dict.fromkeys(self._matrices[server], int(call.reply["own"])))
        clock = min(int(call.reply["clock"]) for call in calls)
        return RemoteRead(rows, own, dense, dense_own, clock, count, counts, totals)

    def step(
        self,
        number: int,
        step: WorkerStep,
        chunks: Sequence[GradientChunk],
        dense: Mapping[str, Floats],
        *,
        pack: bool,
        count_chunk: CountChunk | None = None,
    ) -> int:
        """Send a step to all servers, each its own rows; return the bytes of the messages.

        Parameters
        ----------
        number : int
            Of the step, from 1: equal for all servers. A server that has the step leaves it out.
        step : WorkerStep
            All but the gradients and the counts.
        chunks : sequence of GradientChunk
            Gradients of rows. No key comes twice.
        dense : dict of float32 arrays
            Gradients of matrices, by name: all or none.
        pack : bool
            Send the differences of sorted keys instead of keys.
        count_chunk : CountChunk, optional
            What the step adds to the statistics.

        Raises
        ------
        BitlaneError
            No answer before the deadline, or an error of a server. The update is retained; see `ServerGroup`.
        """
        words = [] if count_chunk is None else self._indices(count_chunk.tally.words)
        split = [self._partition.split(chunk.keys) for chunk in chunks]
        calls, count = [], 0
        for server in range(len(self._updaters)):
            mine = [
                chunk.take(indices[at[server] : at[server + 1]])
                for chunk, (indices, at) in zip(chunks, split, strict=True)
            ]
            own = join_dense({name: dense[name] for name in self._matrices[server]}) if dense else step.dense
            counts = step.counts if count_chunk is None else count_chunk.take(words[server]).to_bytes()
            data = replace(step, gradients=encode_chunks(mine, pack_keys=pack), dense=own, counts=counts).to_bytes()
            calls.append(Call(server, "step", wire.byte_batch(data), {"sequence": number}))
            count += len(data)
        self._update(calls)
        return count

    def _indices(self, keys: Keys) -> list[NDArray[np.int64]]:
        """Return the indices of each server's keys."""
        indices, bounds = self._partition.split(keys)
        return [indices[first:last] for first, last in itertools.pairwise(bounds)]

    def _split_dense(self, server: int, values: Floats, with_state: bool) -> dict[str, Floats]:
        arrays, at = {}, 0
        for name, each in sorted(self._matrices[server].items()):
            size = int(np.prod(each.shape))
            size = Layout([ParameterBlock(size, each.optimizer)]).width if with_state else size
            arrays[name] = values[at : at + size]
            at += size
        return arrays
