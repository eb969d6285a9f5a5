"""Ways to a weight server: `python -m bitlane_studies.sparse.lookup_transports`.

The same lookup in a table that another process of this machine holds: over Arrow Flight, as the front of a sharded
model does it; as a call of a Ray actor; and by the handle of a Ray Serve deployment, if ``ray[serve]`` is installed.
One client asks again as soon as an answer has come.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from bitlane.sparse.engines.cluster import cluster
from bitlane.sparse.scoring.layers import Floats, Found, Keys, LayeredTable
from bitlane.sparse.serving.shards.fan_out import FrontOptions
from bitlane.sparse.serving.shards.front import Front
from bitlane.sparse.serving.shards.local import LocalServers
from bitlane.support.text import align_columns
from bitlane_studies.sparse.serving_load import REQUESTS, WARM_UP, Load, percentiles
from bitlane_studies.sparse.sharded_serving import TOKEN, publish

Lookup = Callable[[Keys], "tuple[Floats, Found]"]


class Holder:
    """What a Ray actor and a deployment run."""

    def __init__(self, load: Load):
        self._table = LayeredTable(load.table())

    def lookup(self, keys: Keys) -> tuple[Floats, Found]:
        """Return weights and which keys are known."""
        return self._table.lookup(keys)


@contextlib.contextmanager
def by_flight(load: Load) -> Iterator[Lookup]:
    """A lookup as a front does it, with one shard."""
    with tempfile.TemporaryDirectory() as folder:
        registry = publish(Path(folder) / "model", load)
        with LocalServers(registry.uri, 1, 1, TOKEN) as servers:
            front = Front(servers.find, 1, 1, FrontOptions(deadline=10.0), token=TOKEN)
            with contextlib.closing(front):
                front.load(1)
                yield front.table(1, 1).lookup


@contextlib.contextmanager
def by_actor(load: Load) -> Iterator[Lookup]:
    """A lookup as a call of a Ray actor."""
    with cluster(None) as running:
        actor = running.actor(Holder, 1.0, load)
        yield lambda keys: running.ray.get(actor.lookup.remote(keys))


@contextlib.contextmanager
def by_serve(load: Load) -> Iterator[Lookup]:
    """A lookup by the handle of a Ray Serve deployment."""
    serve: Any = import_module("ray.serve")
    with cluster(None):
        handle = serve.run(serve.deployment(Holder).bind(load), logging_config={"log_level": "ERROR"})
        try:
            yield lambda keys: handle.lookup.remote(keys).result()
        finally:
            serve.shutdown()


WAYS = {"Arrow Flight": by_flight, "Ray actor": by_actor, "Ray Serve": by_serve}


def measure(name: str, load: Load, requests: int) -> tuple[str, ...]:
    """Return the line of one way."""
    try:
        with WAYS[name](load) as lookup:
            keys, _ = load.requests(0)
            weights, found = LayeredTable(load.table()).lookup(keys[0])
            answer = lookup(keys[0])
            assert np.array_equal(answer[0], weights) and np.array_equal(answer[1], found)
            times = []
            for at in range(WARM_UP + requests):
                begin = time.perf_counter()
                lookup(keys[at % REQUESTS])
                times.append(1e3 * (time.perf_counter() - begin))
    except ImportError:
        return name, "not installed", "", "", ""
    return name, str(requests), *(f"{each:.2f}" for each in percentiles(np.array(times[WARM_UP:])))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all ways, and print a table."""
    parser = argparse.ArgumentParser(description="Measure ways to a weight server.")
    add = parser.add_argument
    add("--keys", type=int, default=1_000_000, metavar="N", help="of the table (default: 1,000,000)")
    add("--asked", type=int, default=100_000, metavar="N", help="keys of a request (default: 100,000)")
    add("--requests", type=int, default=1000, metavar="N", help="of each way (default: 1000)")
    add("--ways", nargs="+", choices=tuple(WAYS), default=tuple(WAYS), help="default: all")
    options = parser.parse_args(arguments)
    load = Load("lr", options.keys, 1, options.asked, 0)
    cells = [(f"{options.asked:,} keys", "requests", "p50, ms", "p99, ms", "p99.9, ms")]
    print(align_columns([*cells, *(measure(name, load, options.requests) for name in options.ways)]))


if __name__ == "__main__":
    main()
