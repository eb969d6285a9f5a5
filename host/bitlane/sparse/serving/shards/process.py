"""A weight server in a process of its own: `python -m bitlane.sparse.serving.shards.process --registry URI ...`.

It prints one line of JSON with its port when it is ready, and loads the versions that a front asks for. SIGTERM and
SIGINT end it; so does the end of its parent with ``--with-parent``.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.servers.programs import add_reach, orphaned, reach_of, run_program, set_by_signals
from bitlane.sparse.serving.shards.server import WeightService
from bitlane.sparse.serving.shards.source import RegistryShard
from bitlane.sparse.serving.shards.versions import HeldVersions

_LOOK_SECONDS = 0.5  # between looks at the parent


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve a shard until a signal comes. The process ends here: with 0, or 1 after a line of error."""
    options = _parser().parse_args(arguments)
    run_program(lambda: _serve(options), options.registry)


def _serve(options: argparse.Namespace) -> None:
    is_orphan, stop, partition = orphaned(options), set_by_signals(), Partition(options.shards)
    load = RegistryShard(options.registry, options.shard, partition, options.cache)
    service = WeightService(HeldVersions(load), options.shard, partition, **reach_of(options))
    print(json.dumps({"port": service.port, "pid": os.getpid(), "shard": options.shard}), flush=True)
    while not is_orphan() and not stop.wait(_LOOK_SECONDS):
        pass
    service.refuse()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Serve the weights of one shard of the models of a registry.")
    parser.add_argument("--registry", required=True, metavar="URI", help="folder of the model in a registry")
    parser.add_argument("--shard", type=int, required=True, metavar="N", help="from 0 on")
    parser.add_argument("--shards", type=int, required=True, metavar="N", help="of all servers together")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="folder for copies of remote files")
    add_reach(parser)
    return parser


if __name__ == "__main__":
    main()
