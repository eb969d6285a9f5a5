"""Measure a model on 4 shards with 2 replicas: `python -m bitlane_studies.sparse.sharded_serving`.

All servers are processes of this machine. One replica of shard 0 is slow: a proxy in front of it holds its answers up,
all of them or a share. One client asks again as soon as an answer has come. The ways to ask take turns, a block of
requests each, so that what else the machine does falls on all of them.

The time of a request is what passes in the front's process from a batch to its predictions. Its p99 beside that
without a slow replica, by the same way to ask, is the last column but one; the last has the extra requests to second
replicas, as a share of all requests to shards.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bitlane.errors import BitlaneError
from bitlane.sparse.registry.manifest import Description
from bitlane.sparse.registry.registry import Draft, ModelRegistry
from bitlane.sparse.registry.writing import Written, write_version
from bitlane.sparse.servers.cuts import Cut
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.servers.shard_files import write_cut
from bitlane.sparse.serving.requests import batch_of
from bitlane.sparse.serving.shards.fan_out import FrontOptions
from bitlane.sparse.serving.shards.front import FindReplica, Front
from bitlane.sparse.serving.shards.local import LocalServers
from bitlane.sparse.serving.shards.model import ShardedModel
from bitlane.sparse.serving.shards.source import ShardedRegistry
from bitlane.support.text import align_columns
from bitlane_studies.sparse.serving_load import REQUESTS, WARM_UP, Load, percentiles

TOKEN = "study"
DEADLINE = 1.0
ROUNDS = 10


@dataclass
class Way:
    """One way to ask, and its times.

    Attributes
    ----------
    name : str
    hedging : bool
    find : callable
        The addresses: with a slow replica, or without.
    """

    name: str
    hedging: bool
    find: FindReplica
    times: list[float] = field(default_factory=list)
    partial: int = 0
    front: Front | None = None
    model: ShardedModel | None = None


def publish(folder: Path, load: Load) -> ModelRegistry:
    """Publish a model of random weights, in one shard: servers take the rows of their keys."""
    registry, table = ModelRegistry(folder), load.table()
    dense = {"intercept": np.zeros(1, np.float32)}

    def write(draft: Draft) -> list[Written]:
        return [Written(write_cut(draft.folder, 0, Cut(table, None, dense, len(table))), len(table))]

    write_version(registry, Description(load.spec), Partition(1), [], write)
    return registry


@contextlib.contextmanager
def slow_link(address: str, delay: float, share: float) -> Iterator[str]:
    """Put a slow network in front of a server; yield its address."""
    host, _, port = address.rpartition(":")
    command = [sys.executable, "-m", "bitlane_studies.sparse.slow_link", port, "--delay", str(delay)]
    with subprocess.Popen([*command, "--share", str(share)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"{host}:{int(process.stdout.readline())}"
        finally:
            process.kill()


def through(find: FindReplica, address: str) -> FindReplica:
    """Return addresses with another one for the first replica of shard 0."""
    return lambda shard, replica: find(shard, replica) if shard or replica else address


def measure(ways: Sequence[Way], load: Load, requests: int) -> None:
    """Let each way ask so many requests, in blocks that take turns."""
    keys, offsets = load.requests(0)
    batches = [batch_of(each, offsets) for each in keys]
    for turn in range(ROUNDS + 1):
        for way in ways:
            assert way.model is not None
            for at in range(WARM_UP if turn == 0 else -(-requests // ROUNDS)):
                begin = time.perf_counter()
                _, missing = way.model.predict_partial(batches[at % REQUESTS])
                if turn:
                    way.times.append(1e3 * (time.perf_counter() - begin))
                    way.partial += bool(missing)


def main(arguments: Sequence[str] | None = None) -> None:
    """Start servers, measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure sharded serving with a slow replica.")
    add = parser.add_argument
    add("--model", choices=("lr", "fm"), default="lr", help="factors have 8 values (default: lr)")
    add("--keys", type=int, default=1_000_000, metavar="N", help="of the model (default: 1,000,000)")
    add("--rows", type=int, default=200, metavar="N", help="of a request (default: 200)")
    add("--features", type=int, default=500, metavar="N", help="of a row (default: 500)")
    add("--shards", type=int, default=4, metavar="N", help="default: 4")
    add("--replicas", type=int, default=2, metavar="N", help="default: 2")
    add("--delay", type=float, default=0.1, metavar="S", help="of a slow answer, in seconds (default: 0.1)")
    add("--share", type=float, default=0.05, metavar="X", help="of the slow answers, where not all are (default: 0.05)")
    add("--requests", type=int, default=2000, metavar="N", help="of each way (default: 2000)")
    add("--seed", type=int, default=0, metavar="N", help="of keys and weights (default: 0)")
    options = parser.parse_args(arguments)
    load = Load(options.model, options.keys, options.rows, options.features, options.seed)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        registry = publish(folder / "model", load)
        servers = stack.enter_context(LocalServers(registry.uri, options.shards, options.replicas, TOKEN))
        while (address := servers.find(0, 0)) is None:
            time.sleep(0.1)
        slow = through(servers.find, stack.enter_context(slow_link(address, options.delay, 1.0)))
        late = through(servers.find, stack.enter_context(slow_link(address, options.delay, options.share)))
        ways = [
            Way(f"{name}, hedging {'on' if hedging else 'off'}", hedging, find)
            for name, find in (
                ("no slow replica", servers.find),
                ("one slow in all answers", slow),
                (f"one slow in {options.share:.0%} of its answers", late),
            )
            for hedging in (False, True)
        ]
        for way in ways:
            front = FrontOptions(deadline=DEADLINE, extra=0.1 if way.hedging else 0.0)
            way.front = Front(way.find, options.shards, options.replicas, front, token=TOKEN)
            stack.callback(way.front.close)
            way.model = ShardedRegistry(registry.uri, way.front).load(1)
        measure(ways, load, options.requests)
        print(align_columns(list(_lines(ways, load))))


def _lines(ways: Sequence[Way], load: Load) -> Iterator[tuple[str, ...]]:
    shape = f"{load.rows} x {load.features} features"
    yield shape, "requests", "p50, ms", "p99, ms", "p99.9, ms", "p99 to p99", "extra", "partial"
    base = {way.hedging: percentiles(np.array(way.times))[1] for way in ways[:2]}
    for way in ways:
        if way.front is None:
            raise BitlaneError(f"{way.name} was not measured")
        found, state = percentiles(np.array(way.times)), way.front.state()
        numbers = [f"{each:.2f}" for each in (*found, found[1] / base[way.hedging])]
        extra = f"{state['extra'] / state['requests']:.1%}"
        yield way.name, str(len(way.times)), *numbers, extra, str(way.partial)


if __name__ == "__main__":
    main()
