"""RUN/servers/serving.json: where the servers of a training listen, as long as it runs; and the token beside it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bitlane.errors import DataError
from bitlane.sparse.engines.access import Access, write_token
from bitlane.sparse.engines.shard_folders import SERVERS, shard_folders
from bitlane.sparse.parameters import storage
from bitlane.sparse.servers.checkpoints import STATE
from bitlane.sparse.servers.connection import ConnectionLost, DeadlineExceeded
from bitlane.sparse.servers.epochs import current_folder
from bitlane.sparse.servers.group import ServerGroup
from bitlane.support.atomic import atomic_write
from bitlane.support.checkpoint_folders import checkpoints_of

_FILE, _TOKEN, _AUTHORITIES = "serving.json", "token", "authorities.pem"
_DEADLINE = 5.0

Record = dict[str, Any]


def token_of(folder: Path) -> Path:
    """Return the file of the token of a training's servers, as long as it runs."""
    return folder / SERVERS / _TOKEN


class ServingFile:
    """The file of one training; a context manager that removes it at the end.

    Parameters
    ----------
    folder : Path
        The folder of the training.
    access : Access
    """

    def __init__(self, folder: Path, access: Access):
        self._folder, self._access = folder / SERVERS, access
        self._written: Record = {}

    def update(self, record: Record) -> None:
        """Write the addresses and processes, if they have changed."""
        if record != self._written:
            with atomic_write(self._folder / _FILE) as unfinished:
                unfinished.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            self._written = record

    def __enter__(self) -> ServingFile:
        self._remove()
        write_token(token_of(self._folder.parent))
        if self._access.authorities_file is not None:
            shutil.copyfile(self._access.authorities_file, self._folder / _AUTHORITIES)
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def _remove(self) -> None:
        for name in (_FILE, _TOKEN, _AUTHORITIES):
            with contextlib.suppress(OSError):
                (self._folder / name).unlink(missing_ok=True)


@dataclass(frozen=True)
class ServerStatus:
    """The servers of a training.

    Attributes
    ----------
    running : bool or None
        None: the servers cannot be reached, and may run or not.
    problem : str
        Why they cannot be reached.
    servers : list of dict
        Of each: its ``address``, and the status of `ParameterShard.status` with the ``traffic``. If the training does
        not run: ``server``, ``rows``, ``sequences`` and ``training`` of its last checkpoint.
    """

    running: bool | None
    servers: list[Record] = field(default_factory=list)
    problem: str = ""


def status_of_run(folder: Path) -> ServerStatus:
    """Return the status of the servers of a training.

    Parameters
    ----------
    folder : Path
        Its folder.

    Raises
    ------
    DataError
        The training has no servers.
    BitlaneError
        The servers refuse to answer.
    """
    folders = shard_folders(folder)
    if not folders:
        raise DataError(f"{folder} has no servers: pass the run folder of a training with --engine ray, or HOST:PORT")
    try:
        serving = json.loads((folder / SERVERS / _FILE).read_text(encoding="utf-8"))
        addresses = [str(each["address"]) for each in serving["servers"]]
    except FileNotFoundError:
        return ServerStatus(False, [_last_checkpoint(folder) for folder in folders])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder / SERVERS / _FILE} is damaged ({type(error).__name__})") from error
    try:
        return status_at(addresses, token=_text(folder, _TOKEN), certificates=_text(folder, _AUTHORITIES))
    except (ConnectionLost, DeadlineExceeded) as error:
        last = [_last_checkpoint(folder) for folder in folders]
        if _has_ended(serving):
            return ServerStatus(False, last)
        return ServerStatus(None, last, f"{error}; the training began on host {serving.get('host')} and may still run")


def status_at(addresses: list[str], **client: str | None) -> ServerStatus:
    """Return the status of servers.

    Parameters
    ----------
    addresses : list of str
        ``host:port`` of all servers of a model, in their order.
    **client
        `token` and `certificates` of `ServerGroup`.

    Raises
    ------
    BitlaneError
        As of `ServerGroup`.
    """
    arguments: Mapping[str, Any] = client
    with ServerGroup(addresses, deadline=_DEADLINE, **arguments) as servers:
        reports = servers.status()
    return ServerStatus(True, [{"address": at, **each} for at, each in zip(addresses, reports, strict=True)])


def _last_checkpoint(folder: Path) -> Record:
    complete = checkpoints_of(current_folder(folder))
    if not complete:
        raise DataError(f"{folder} is not a shard folder: it has no checkpoint")
    record = storage.read_description(complete[-1], STATE, "checkpoint of a shard")
    return {
        "server": int(folder.name.partition("-")[2]),
        "rows": record.get("keys"),
        "sequences": record.get("sequences", {}),
        "training": record.get("rounds", {}),
    }


def _has_ended(serving: Record) -> bool:
    """Return whether the driver that wrote the file has certainly ended: it ran on this machine."""
    return serving.get("host") == os.uname().nodename and not Path(f"/proc/{serving.get('driver')}").exists()


def _text(folder: Path, name: str) -> str | None:
    try:
        return (folder / SERVERS / name).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
