"""The folder of a shard: its names, how it is made, and the lock that keeps out who does not take it over."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.servers import checkpoints
from bitlane.sparse.servers.epochs import LOCK, LOG
from bitlane.sparse.servers.log import WriteAheadLog
from bitlane.sparse.servers.spec import ShardSpec
from bitlane.support.atomic import atomic_folder
from bitlane.support.checkpoint_folders import checkpoint_after

SPEC = "shard.json"


def write_shard(
    folder: str | Path,
    spec: ShardSpec,
    parameters: SparseParameters,
    matrices: Mapping[str, Matrix],
    progress: checkpoints.ShardProgress | None = None,
) -> None:
    """Make the folder of a shard with these parameters: description, first checkpoint and log.

    Raises
    ------
    DataError
        The folder is in use.
    BitlaneError
        It cannot be written.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} is in use: choose another folder")
    unfinished = folder.with_name(f".{folder.name}.part")
    try:
        with atomic_folder(folder, unfinished):
            (unfinished / LOG).mkdir()
            (unfinished / SPEC).write_text(json.dumps(spec.to_json(), indent=1) + "\n", encoding="utf-8")
            first = checkpoint_after(unfinished, [])
            first.mkdir()
            checkpoints.write(first, progress or checkpoints.ShardProgress(), parameters, matrices)
            WriteAheadLog.create(unfinished / LOG).close()
    except OSError as error:
        raise BitlaneError(f"{folder} cannot be written: {error.strerror or error}") from error


@contextmanager
def locked(folder: Path, shard: Path) -> Iterator[None]:
    """A section in which this process holds an epoch; errors as of `lock_folder`."""
    held = lock_folder(folder, shard)
    try:
        yield
    finally:
        os.close(held)


def lock_folder(folder: Path, shard: Path) -> int:
    """Return a file descriptor; this process holds the folder of an epoch as long as it is open.

    Raises
    ------
    DataError
        Another process serves the shard.
    """
    held = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        raise DataError(f"{shard} is served by another process") from None
    return held
