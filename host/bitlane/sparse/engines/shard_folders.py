"""The shards in the folder of a training: RUN/servers/shard-0, shard-1, ...; all of a number of servers, or none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from bitlane.errors import BitlaneError
from bitlane.sparse.servers.reshard import reshard
from bitlane.sparse.workers.shards import AnyModel, create_shard
from bitlane.support.atomic import sync_entries

SERVERS = "servers"
_NEW, _OLD = ".servers-new", ".servers-old"


def shard_folders(folder: Path) -> list[Path]:
    """Return the folders of the shards of a training, in the order of the servers; empty before there are any."""
    _restore(folder)
    folders = [path for path in (folder / SERVERS).glob("shard-*") if path.name.partition("-")[2].isdecimal()]
    return sorted(folders, key=lambda path: int(path.name.partition("-")[2]))


def prepare_shards(folder: Path, new_model: Callable[[], AnyModel], servers: int) -> list[Path]:
    """Return the folders of the shards for a number of servers.

    They are made for a new training. Those of another number of servers are moved, see `reshard`: the new folders
    replace the old ones at once, or not at all.

    Parameters
    ----------
    folder : Path
        The folder of the training.
    new_model : callable
        Returns the model of a new training, which has no rows yet.
    servers : int

    Raises
    ------
    DataError
        As of `reshard`.
    BitlaneError
        They cannot be written.
    """
    folders = shard_folders(folder)
    if len(folders) == servers:
        return folders
    if folders:
        _replace(folder, lambda new: reshard(folders, _names(new, servers)))
    else:
        _replace(folder, lambda new: _create(_names(new, servers), new_model()))
    return shard_folders(folder)


def _names(folder: Path, servers: int) -> list[Path]:
    return [folder / f"shard-{server}" for server in range(servers)]


def _create(folders: list[Path], model: AnyModel) -> None:
    for server, folder in enumerate(folders):
        create_shard(folder, model, server, len(folders))


def _replace(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a new folder, which then takes the place of RUN/servers."""
    new, old, current = folder / _NEW, folder / _OLD, folder / SERVERS
    try:
        shutil.rmtree(new, ignore_errors=True)  # what a killed process has left
        new.mkdir()
        write(new)
        if current.exists():
            os.rename(current, old)
        os.rename(new, current)
        sync_entries(folder)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise BitlaneError(f"{current} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _restore(folder: Path) -> None:
    """Undo a replacement that a kill has cut in two."""
    if (folder / _OLD).exists() and not (folder / SERVERS).exists():
        os.rename(folder / _OLD, folder / SERVERS)
    shutil.rmtree(folder / _OLD, ignore_errors=True)
