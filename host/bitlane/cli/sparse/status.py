"""`bitlane sparse status`: the servers of a training."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitlane.cli.command import Command
from bitlane.cli.companions import Companion, check_companions, given_options
from bitlane.errors import DataError
from bitlane.support.optional import require_extra
from bitlane.support.text import stacked_columns

from . import data
from .summary import NONE

if TYPE_CHECKING:
    from bitlane.sparse.engines.serving import ServerStatus

MIB = 1 << 20
HEADER = (
    "server",
    "address",
    "rows",
    "memory MiB",
    "/ data",
    "log MiB",
    "clocks",
    "lag",
    "updates",
    "in MiB",
    "out MiB",
)
_LAST = "rows and clocks are those of the last checkpoints"
ADDRESSES = Companion(("token_file", "tls_ca"), "servers given by address, not by a run folder", lambda _: False)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("servers", nargs="+", metavar="RUN|HOST:PORT", help="a run folder, or the addresses of all servers in order")
    add("--token-file", type=Path, metavar="FILE", help="file with the token of servers given by address")
    add("--tls-ca", type=Path, metavar="PEM", help="CA certificates for servers given by address")
    add("--json", action="store_true", help="print the full reports of the servers as JSON")


def _run(arguments: argparse.Namespace) -> None:
    data.require_libraries("the status of servers")
    require_extra("pyarrow.flight", "the status of servers", data.EXTRA)
    status = _status(arguments)
    if arguments.json:
        record = {"running": status.running, "problem": status.problem, "servers": status.servers}
        print(json.dumps(record, indent=1))
        return
    print(_table(status.servers))
    if status.running is None:
        print(f"\ncannot be reached: {status.problem}; {_LAST}")
    elif not status.running:
        print(f"\n{_how_it_stands(Path(arguments.servers[0]))}; {_LAST}")


COMMAND = Command(
    "status",
    "show rows, memory, clocks and bytes of the servers of a training",
    _add_arguments,
    _run,
    description="Show the parameter servers of a training: rows, memory, clocks of the workers (the oldest and the "
    "newest, and their difference, the lag), updates, and bytes received and sent since the start of the server.",
)


def _status(arguments: argparse.Namespace) -> ServerStatus:
    from bitlane.sparse.engines.serving import status_at, status_of_run
    from bitlane.sparse.servers.security import read_secret

    first = arguments.servers[0]
    if len(arguments.servers) == 1 and Path(first).is_dir():
        check_companions(arguments, given_options(arguments), [ADDRESSES])
        return status_of_run(Path(first))
    files = {"token": arguments.token_file, "certificates": arguments.tls_ca}
    client = {name: None if path is None else read_secret(path) for name, path in files.items()}
    for each in arguments.servers:
        if not each.rpartition(":")[2].isdecimal():
            raise DataError(f"{each} is neither a run folder nor HOST:PORT")
    return status_at(arguments.servers, **client)


def _how_it_stands(folder: Path) -> str:
    """Say why the servers of a run folder do not answer."""
    from bitlane.sparse.training.log import is_held, read_log

    if is_held(folder):
        return "not running yet: servers and workers are being started, or started again"
    ending = next((line for line in reversed(read_log(folder)) if line["kind"] in ("end", "resumed")), None)
    if ending is None or ending["kind"] == "resumed":
        return "not running: the training was killed; train --resume goes on from its last checkpoint"
    if ending["reason"] == "finished":
        return f"finished: {ending['rows_done']:,} rows learned"
    return f"{ending['reason']} after {ending['rows_done']:,} rows; train --resume goes on"


def _table(servers: Sequence[Mapping[str, Any]]) -> str:
    return stacked_columns([HEADER, *(_row(each) for each in servers)], left=2)


def _row(server: Mapping[str, Any]) -> list[str]:
    clocks = server["training"].get("clocks") or []
    traffic = server.get("traffic", {}).values()
    ratio = server.get("memory_over_data")
    return [
        str(server["server"]),
        server.get("address", NONE),
        f"{server['rows']:,}",
        _mib(server.get("bytes")),
        NONE if ratio is None else f"{ratio:.2f}",
        _mib(server.get("log_bytes")),
        f"{min(clocks)}..{max(clocks)}" if clocks else NONE,
        str(max(clocks) - min(clocks)) if clocks else NONE,
        f"{sum(server['sequences'].values()):,}",
        *(_mib(sum(lane[name] for lane in traffic) if traffic else None) for name in ("received", "sent")),
    ]


def _mib(value: int | None) -> str:
    return NONE if value is None else f"{value / MIB:,.1f}"
