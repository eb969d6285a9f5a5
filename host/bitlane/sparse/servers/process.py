"""One server in a process of its own: `python -m bitlane.sparse.servers.process --folder FOLDER`.

It prints one line of JSON with its port when it is ready. SIGTERM and SIGINT end it after a checkpoint; so does the end
of its parent with ``--with-parent``.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

from bitlane.sparse.servers.programs import add_reach, orphaned, reach_of, run_program, set_by_signals
from bitlane.sparse.servers.service import ShardService
from bitlane.sparse.servers.shard import ParameterShard
from bitlane.sparse.servers.spec import ShardSpec
from bitlane.sparse.servers.upkeep import CHECKPOINT_BYTES, keep_log_short, warm_up


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve a shard until a signal comes or it fails. The process ends here: with 0, or 1 after a line of error."""
    options = _parser().parse_args(arguments)
    run_program(lambda: _serve(options), str(options.folder))


def _serve(options: argparse.Namespace) -> None:
    is_orphan = orphaned(options)
    if options.spec is not None and not options.folder.exists():
        ParameterShard.create(options.folder, ShardSpec.read(options.spec))
    shard = ParameterShard.open(options.folder, sync=options.sync, take_over=options.take_over)
    warm_up(shard.spec)
    try:
        stop = set_by_signals()
        service = ShardService(shard, **reach_of(options), on_stop=stop.set)
        print(json.dumps({"port": service.port, "pid": os.getpid(), "server": shard.spec.server}), flush=True)
        keep_log_short(shard, stop, options.checkpoint_bytes, is_orphan)
        service.refuse()
        shard.checkpoint()
    finally:
        shard.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Serve one shard of a sparse model.")
    parser.add_argument("--folder", type=Path, required=True, help="of the shard")
    parser.add_argument(
        "--spec", type=Path, metavar="JSON", help="create the folder, if it is missing, from this description"
    )
    parser.add_argument("--sync", action="store_true", help="acknowledge updates after they are synced to disk")
    parser.add_argument("--take-over", action="store_true", help="also from a server that may still live")
    parser.add_argument(
        "--checkpoint-bytes",
        type=int,
        default=CHECKPOINT_BYTES,
        metavar="N",
        help="write a checkpoint when the log exceeds this (default: 1 GiB)",
    )
    add_reach(parser)
    return parser


if __name__ == "__main__":
    main()
