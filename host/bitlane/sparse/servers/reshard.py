"""Move the virtual shards of a model to another number of servers, while none of them runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.servers.checkpoints import ShardProgress
from bitlane.sparse.servers.counts import moved
from bitlane.sparse.servers.rounds import worker_name
from bitlane.sparse.servers.shard import ParameterShard
from bitlane.sparse.servers.shard_folder import write_shard

Keys = NDArray[np.uint64]


def reshard(sources: Sequence[str | Path], targets: Sequence[str | Path]) -> None:
    """Write the shards of a model anew for another number of servers; the old ones stay as they are.

    Rows, stamps, matrices and the clock keep their bits. Counts of the admission become the larger ones of the old
    shards: a key may enter earlier, and never later. Workers begin anew with sequence 1, so each must have had all its
    updates acknowledged.

    Parameters
    ----------
    sources : sequence of str or Path
        The folders of all shards, in the order of their servers.
    targets : sequence of str or Path
        New folders, one for each new server.

    Raises
    ------
    DataError
        The sources are not the shards of one model in order, a target is in use, or a training ended within a step.
    """
    with ExitStack() as stack:
        shards = open_shards(sources, stack)
        for server, target in enumerate(targets):
            _write(shards, server, len(targets), Path(target))


def open_shards(folders: Sequence[str | Path], stack: ExitStack) -> list[ParameterShard]:
    """Open all shards of a model, until the stack ends; errors as of `reshard`."""
    shards = []
    for folder in folders:
        shards.append(ParameterShard.open(folder))
        stack.callback(shards[-1].close)
    _check(shards)
    return shards


def merged_state(states: Sequence[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Return the larger of all counts of tables' states: each key was counted by one shard alone."""
    return {name: np.maximum.reduce([state[name] for state in states]) for name in states[0]}


def _check(shards: Sequence[ParameterShard]) -> None:
    if not shards:
        raise DataError("pass the folder of at least one shard")
    for server, shard in enumerate(shards):
        if (shard.spec.server, shard.spec.servers) != (server, len(shards)):
            raise DataError(
                f"{shard.folder} is shard {shard.spec.server} of {shard.spec.servers}; "
                f"it was given as {server} of {len(shards)}"
            )
        if not shard.spec.same_model(shards[0].spec):
            raise DataError(f"{shard.folder} belongs to another model than {shards[0].folder}")


def _write(shards: Sequence[ParameterShard], server: int, servers: int, target: Path) -> None:
    spec = shards[0].spec.placed(server, servers)
    parameters, matrices = spec.parameters(), spec.own_matrices()

    def is_mine(keys: Keys) -> NDArray[np.bool_]:
        mine: NDArray[np.bool_] = spec.partition.owners(keys) == server
        return mine

    def chunks() -> Iterator[tuple[Any, ...]]:
        for shard in shards:
            for chunk in shard.parameters.table.items():
                chosen = is_mine(chunk[0])
                yield tuple(each[chosen] for each in chunk)

    parameters.table.load(chunks())
    parameters.table.restore(merged_state([shard.parameters.table.state() for shard in shards]))
    for shard in shards:
        for name in shard.matrices.keys() & matrices.keys():
            matrices[name].restore(shard.matrices[name].state())
    write_shard(target, spec, parameters, matrices, _progress(shards, is_mine))


def _progress(shards: Sequence[ParameterShard], is_mine: Callable[[Keys], NDArray[np.bool_]]) -> ShardProgress:
    """What the workers of a training have done; each must have sent its last step to all servers."""
    done = [shard.progress for shard in shards]
    sequences = {name: last for name, last in done[0].sequences.items() if name.startswith(worker_name(""))}
    for shard, each in zip(shards, done, strict=True):
        if each.rounds.held or any(each.sequences.get(name) != last for name, last in sequences.items()):
            raise DataError(f"a training ended within a step ({shard.folder}): resume it with the old servers first")
    counts = [each.counts for each in done if each.counts is not None]
    return ShardProgress(1, sequences, done[0].rounds, moved(counts, is_mine) if counts else None)
