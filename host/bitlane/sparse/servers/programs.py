"""What programs that serve have in common: options of how they are reached, and their end."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers.failures import reason_of
from bitlane.sparse.servers.newcomers import raise_descriptor_limit
from bitlane.sparse.servers.security import read_secret


def run_program(serve: Callable[[], None], subject: str) -> None:
    """Serve until that ends. The process ends here: with 0, or 1 after a line of error, which may name `subject`."""
    raise_descriptor_limit()
    try:
        serve()
    except BitlaneError as error:
        _fail(str(error))
    except MemoryError as error:
        _fail(f"{subject}: {reason_of(error)}")
    os._exit(0)  # lanes that clients keep open would hold up the end of Flight's threads


def _fail(message: str) -> None:
    print(f"error: {message}", file=sys.stderr, flush=True)
    os._exit(1)


def set_by_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def orphaned(options: argparse.Namespace) -> Callable[[], bool]:
    """Return a function that returns whether the parent process has ended, with ``--with-parent``."""
    parent = os.getppid()
    return lambda: options.with_parent and os.getppid() != parent


def add_reach(parser: argparse.ArgumentParser) -> None:
    """Add the options of `reach_of` and `orphaned`."""
    parser.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1; others need a token and TLS")
    parser.add_argument("--port", type=int, default=0, help="default: any free one")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="file with the token that clients must send")
    parser.add_argument("--tls-certificate", type=Path, metavar="PEM")
    parser.add_argument("--tls-key", type=Path, metavar="PEM")
    parser.add_argument("--limit", type=int, default=64, metavar="N", help="most requests at a time (default: 64)")
    parser.add_argument("--with-parent", action="store_true", help="end when the parent process ends")


def reach_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return how a service is reached, and how much it takes: its arguments.

    Raises
    ------
    BitlaneError
        A file cannot be read, or one of the two for TLS is not given.
    """
    files = tls_files(options)
    return {
        "host": options.host,
        "port": options.port,
        "token": None if options.token_file is None else read_secret(options.token_file),
        "tls": None if files is None else (read_secret(files[0]), read_secret(files[1])),
        "limit": options.limit,
    }


def tls_files(options: argparse.Namespace) -> tuple[Path, Path] | None:
    """Return the certificate and its key, if both are given; None: no TLS.

    Raises
    ------
    DataError
        Only one of them is given.
    """
    if (options.tls_certificate is None) != (options.tls_key is None):
        raise DataError("TLS needs both --tls-certificate and --tls-key")
    if options.tls_certificate is None:
        return None
    return options.tls_certificate, options.tls_key
