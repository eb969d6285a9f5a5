"""One server in a process of its own: `python -m bitlane.sparse.servers.process --folder FOLDER`.

It prints one line of JSON with its port when it is ready. SIGTERM and SIGINT end it after a checkpoint; so does the end
of its parent with ``--with-parent``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers.failures import reason_of
from bitlane.sparse.servers.security import read_secret
from bitlane.sparse.servers.service import ShardService
from bitlane.sparse.servers.shard import Shard
from bitlane.sparse.servers.spec import ShardSpec
from bitlane.sparse.servers.upkeep import CHECKPOINT_BYTES, keep_log_short, warm_up


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve a shard until a signal comes or it fails. The process ends here: with 0, or 1 after a line of error."""
    options = _parser().parse_args(arguments)
    try:
        _serve(options)
    except BitlaneError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    except MemoryError as error:
        print(f"error: {options.folder}: {reason_of(error)}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)  # lanes that clients keep open would hold up the end of Flight's threads


def _serve(options: argparse.Namespace) -> None:
    stop = threading.Event()
    parent = os.getppid()
    if options.spec is not None and not options.folder.exists():
        Shard.create(options.folder, ShardSpec.read(options.spec))
    shard = Shard.open(options.folder, sync=options.sync)
    warm_up(shard.spec)
    try:
        service = ShardService(
            shard,
            options.host,
            options.port,
            token=None if options.token_file is None else read_secret(options.token_file),
            tls=_tls(options),
            limit=options.limit,
            on_stop=stop.set,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        print(json.dumps({"port": service.port, "pid": os.getpid(), "server": shard.spec.server}), flush=True)
        keep_log_short(shard, stop, options.checkpoint_bytes, lambda: options.with_parent and os.getppid() != parent)
        service.refuse()
        shard.checkpoint()
    finally:
        shard.close()


def _tls(options: argparse.Namespace) -> tuple[str, str] | None:
    if (options.tls_certificate is None) != (options.tls_key is None):
        raise DataError("TLS needs both --tls-certificate and --tls-key")
    if options.tls_certificate is None:
        return None
    return read_secret(options.tls_certificate), read_secret(options.tls_key)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Serve one shard of a sparse model.")
    parser.add_argument("--folder", type=Path, required=True, help="of the shard")
    parser.add_argument(
        "--spec", type=Path, metavar="JSON", help="make the folder, if it is missing, by this description"
    )
    parser.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1; others need a token and TLS")
    parser.add_argument("--port", type=int, default=0, help="default: any free one")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="with the token that clients must know")
    parser.add_argument("--tls-certificate", type=Path, metavar="PEM")
    parser.add_argument("--tls-key", type=Path, metavar="PEM")
    parser.add_argument("--sync", action="store_true", help="acknowledge updates when the disk has them")
    parser.add_argument("--limit", type=int, default=64, metavar="N", help="requests that run or wait (default: 64)")
    parser.add_argument(
        "--checkpoint-bytes",
        type=int,
        default=CHECKPOINT_BYTES,
        metavar="N",
        help="write a checkpoint when the log has more bytes (default: 1 GiB)",
    )
    parser.add_argument("--with-parent", action="store_true", help="end when the parent process ends")
    return parser


if __name__ == "__main__":
    main()
