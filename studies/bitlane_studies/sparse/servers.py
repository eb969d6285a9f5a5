"""Measure pull and push of a parameter server over loopback: `python -m bitlane_studies.sparse.servers`.

A server runs in a process of its own, with a log. A client pulls and pushes batches of distinct random keys out of
those that the server has. The time of a call is what passes in the client from keys to weights, or to the
acknowledgement. Beside it are the same calls on local parameters, and numpy's gather of as many floats from an array by
row number, without keys; with ``--others``, the same pull from a Ray actor and by torch RPC. The ways take turns, so
that a busy machine is unkind to all.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import BitlaneError
from bitlane.sparse.servers.client import RemoteParameters
from bitlane.sparse.servers.shard import Shard
from bitlane.sparse.servers.spec import ShardSpec
from bitlane.support.text import align_columns
from bitlane_studies.sparse import other_transports
from bitlane_studies.sparse.other_transports import Keys, Pull, block_of, create_rows, filled_parameters

BATCHES = 16  # different batches of keys, which take turns
WARM_UP = 5  # rounds that do not count
_STEP = np.uint64(0x9E3779B97F4A7C15)  # keys are multiples of it: all different

Way = Callable[[int], object]


def keys_of(count: int) -> Keys:
    """Return different keys, uint64 [count]."""
    return np.asarray(np.arange(count, dtype=np.uint64) * _STEP)


def start_server(folder: Path, sync: bool, stack: ExitStack) -> str:
    """Start the server of a shard, which ends with the stack; return its address."""
    command = [sys.executable, "-m", "bitlane.sparse.servers.process", "--folder", str(folder), "--with-parent"]
    process = subprocess.Popen([*command, *["--sync"] * sync], stdout=subprocess.PIPE, text=True)
    stack.callback(process.wait)
    stack.callback(process.kill)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise BitlaneError("the server did not start")
    return f"127.0.0.1:{json.loads(line)['port']}"


def measure(ways: dict[str, Way], rounds: int) -> dict[str, NDArray[np.float64]]:
    """Return the milliseconds of each call, float64 [rounds], of ways that take turns."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for each in range(rounds + WARM_UP):
        for name, way in ways.items():
            begin = time.perf_counter()
            way(each % BATCHES)
            found[name].append(1e3 * (time.perf_counter() - begin))
    return {name: np.array(times[WARM_UP:]) for name, times in found.items()}


def ways_of(
    servers: dict[str, RemoteParameters], others: dict[str, Pull], keys: Keys, values: int, batch: int, seed: int
) -> dict[str, Way]:
    """Return what is measured, by name, for `batch` of the `keys` and `values` weights each.

    Raises
    ------
    BitlaneError
        Two ways pull different weights.
    """
    draw = np.random.default_rng(seed)
    places = [draw.permutation(len(keys))[:batch] for _ in range(BATCHES)]
    batches = [keys[each] for each in places]
    gradients = np.full((batch, values), 1e-3, np.float32)
    local = filled_parameters(values, keys)
    for remote in servers.values():
        create_rows(remote.pull, keys)
    array = np.zeros((len(keys), values), np.float32)
    pulls = {"pull": next(iter(servers.values())).pull, **others}
    for name, pull in pulls.items():
        if not np.array_equal(pull(batches[0]), local.pull(batches[0])):
            raise BitlaneError(f"{name}: its weights are not those of local parameters")
    ways: dict[str, Way] = {"numpy gather": lambda i: array[places[i]]}
    ways["pull, local"] = lambda i: local.pull(batches[i])
    for name, pull in pulls.items():
        ways[name] = lambda i, pull=pull: pull(batches[i])  # type: ignore[misc]
    ways["push, local"] = lambda i: local.push(batches[i], gradients)
    for name, remote in servers.items():
        ways[name] = lambda i, remote=remote: remote.push(batches[i], gradients)  # type: ignore[misc]
    return ways


def start_others(values: int, keys: Keys, stack: ExitStack) -> dict[str, Pull]:
    """Start the other transports, which end with the stack; print one line for each that is not installed."""
    found = {}
    for name, start in other_transports.TRANSPORTS.items():
        try:
            found[name] = stack.enter_context(start(values, keys))
        except BitlaneError as error:
            print(f"{name}: {error}")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Start servers, measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure pull and push of a parameter server over loopback.")
    parser.add_argument("--keys", type=int, default=1_000_000, metavar="N", help="of the server (default: 1,000,000)")
    parser.add_argument("--batch", type=int, default=50_000, metavar="N", help="keys of a call (default: 50,000)")
    parser.add_argument("--values", type=int, default=1, metavar="N", help="weights of a key (default: 1)")
    parser.add_argument("--rounds", type=int, default=1000, metavar="N", help="calls of each kind (default: 1,000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the keys that are drawn (default: 0)")
    parser.add_argument("--others", action="store_true", help="pull from a Ray actor and by torch RPC too")
    options = parser.parse_args(arguments)
    if not 1 <= options.batch <= options.keys or options.values < 1 or options.rounds < 1:
        parser.error("--batch must be 1 to --keys, --values and --rounds at least 1")
    keys = keys_of(options.keys)
    spec = ShardSpec((block_of(options.values),))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = {}
        for name, sync in (("push, logged", False), ("push, logged and on the disk", True)):
            Shard.create(folder / name, spec)
            address = start_server(folder / name, sync, stack)
            servers[name] = stack.enter_context(RemoteParameters([address]))
        others = start_others(options.values, keys, stack) if options.others else {}
        ways = ways_of(servers, others, keys, options.values, options.batch, options.seed)
        times = measure(ways, options.rounds)
    cells: list[tuple[str, ...]] = [
        (f"{options.batch:,} of {options.keys:,} keys, {options.values} float32 each", "p50, ms", "p99, ms")
    ]
    cells += [(name, *(f"{each:.2f}" for each in np.quantile(found, (0.5, 0.99)))) for name, found in times.items()]
    print(align_columns(cells))


if __name__ == "__main__":
    main()
