"""Coordinate the members of an elastic training, until all have finished."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence

from bitlane.errors import BitlaneError

from .coordinator import Coordinator


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 1 if the state of the training is lost."""
    parser = argparse.ArgumentParser(prog="python -m bitlane.compress.elastic", description=__doc__)
    add = parser.add_argument
    add("--members", type=int, required=True, help="members with which the training begins")
    add("--host", default="127.0.0.1", help="own address that members reach (default: %(default)s, this machine)")
    add("--port", type=int, default=29500, help="port to listen on, 0 for any (default: %(default)s)")
    add("--silence", type=float, default=10.0, help="seconds until a silent member is voted out (default: %(default)g)")
    add("--patience", type=float, default=600.0, help="seconds to wait for a member at a round (default: %(default)g)")
    given = parser.parse_args(argv)
    for name in ("members", "silence", "patience"):
        if getattr(given, name) <= 0:
            parser.error(f"--{name} must be above 0; got {getattr(given, name)}")
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    coordinator = Coordinator(given.members, given.silence, given.patience)

    def ready(port: int) -> None:
        print(f"listening on port {port}", flush=True)

    try:
        print(asyncio.run(coordinator.serve(given.host, given.port, ready)))
    except KeyboardInterrupt:
        return 130
    except BitlaneError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
