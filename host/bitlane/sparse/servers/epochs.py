"""Epochs of a shard: who serves it last owns it, and what an earlier server still writes counts no more.

SHARD/epoch             number of the last epoch, and a random name of its server
SHARD/epoch-0000003/    checkpoints and log of epoch 3, of which no other server knows; before epoch 1 they lie in SHARD

A new server first raises the epoch, then takes over checkpoint and log of the epoch before: what no longer changes by
hard links, the newest segment as a copy. An earlier server, which may have been stopped or cut off, acknowledges an
update only if the epoch is still its own after the update is in its log. So either the new server finds the update in
the log that it takes over, or the worker sends it again. No lock is needed: other hosts may not honour one.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bitlane.errors import BitlaneError
from bitlane.sparse.servers.failures import reason_of
from bitlane.sparse.servers.log import path_of, segments
from bitlane.support.atomic import atomic_folder
from bitlane.support.checkpoint_folders import checkpoints_of

LOG, LOCK = "log", "lock"
_EPOCH, _PART = "epoch", ".epoch-part"
_NAME = re.compile(r"epoch-(\d{7,})")
_BYTES = 64  # of the file, always
_ATTEMPTS = 20  # to take over files while an earlier server writes checkpoints


@dataclass(frozen=True)
class Epoch:
    """The time in which one server owns a shard.

    Attributes
    ----------
    shard : Path
        The folder of the shard.
    folder : Path
        Of the server's checkpoints and log.
    mark : bytes
        What SHARD/epoch has as long as the epoch lasts.
    """

    shard: Path
    folder: Path
    mark: bytes

    @cached_property
    def _path(self) -> str:
        return str(self.shard / _EPOCH)

    @property
    def is_over(self) -> bool:
        """Whether another server has taken the shard over, or its folder is gone.

        The file is opened anew: network file systems then ask their server.
        """
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            return os.read(file, _BYTES) != self.mark
        finally:
            os.close(file)


def current_folder(shard: Path) -> Path:
    """Return the folder with the checkpoints and the log of a shard."""
    return max(_epoch_folders(shard), key=_number, default=shard)


def next_epoch(shard: Path) -> Epoch:
    """Begin an epoch, with the checkpoint and the log of the one before.

    Raises
    ------
    BitlaneError
        The files cannot be written.
    """
    try:
        number, mark = _claim(shard)
        for attempt in range(_ATTEMPTS):
            source, folder = current_folder(shard), shard / f"epoch-{number:07}"
            try:
                with atomic_folder(folder, shard / f"{_PART}-{number}"):
                    _take_over(source, shard / f"{_PART}-{number}")
                break
            except _Changed as change:
                if attempt == _ATTEMPTS - 1:
                    raise BitlaneError(f"{change} is missing: {shard} is damaged, or changes all the time") from change
        _remove_before(shard, number)
    except OSError as error:
        raise BitlaneError(f"{shard} cannot be written: {reason_of(error)}") from error
    return Epoch(shard, folder, mark)


class _Changed(Exception):
    """An earlier server has removed a file meanwhile, as behind a checkpoint."""


def _claim(shard: Path) -> tuple[int, bytes]:
    """Raise the epoch; return its number and the content of the file."""
    file = os.open(shard / _EPOCH, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)  # against another server that starts now; held for this moment only
        words = os.read(file, _BYTES).split()
        before = int(words[0]) if words and words[0].isdigit() else 0
        number = 1 + max([before, *map(_number, _epoch_folders(shard))])
        mark = f"{number} {secrets.token_hex(16)}\n".encode().rjust(_BYTES)
        os.pwrite(file, mark, 0)
        os.fsync(file)
    finally:
        os.close(file)
    return number, mark


def _take_over(source: Path, target: Path) -> None:
    """Give `target` the checkpoint and the log of `source`, which an earlier server may still write."""
    checkpoints = checkpoints_of(source)
    (target / LOG).mkdir()
    try:
        for checkpoint in checkpoints:
            _take_folder(checkpoint, target / checkpoint.name)
        numbers = segments(source / LOG)
        for number in numbers:
            take = shutil.copyfile if number == numbers[-1] else _link
            take(path_of(source / LOG, number), path_of(target / LOG, number))
    except FileNotFoundError as error:
        raise _Changed(error.filename) from error
    if checkpoints_of(source) != checkpoints:
        raise _Changed(source)


def _take_folder(source: Path, target: Path) -> None:
    target.mkdir()
    for path in source.iterdir():
        (_take_folder if path.is_dir() else _link)(path, target / path.name)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # the file system has no hard links
        shutil.copyfile(source, target)


def _remove_before(shard: Path, number: int) -> None:
    """Remove the files of earlier epochs, as far as they let."""
    for folder in _epoch_folders(shard):
        if _number(folder) < number:
            shutil.rmtree(folder, ignore_errors=True)
    for old in [*checkpoints_of(shard), *shard.glob(".*-part*"), shard / LOG]:
        shutil.rmtree(old, ignore_errors=True)
    (shard / LOCK).unlink(missing_ok=True)


def _epoch_folders(shard: Path) -> list[Path]:
    return [path for path in shard.iterdir() if _NAME.fullmatch(path.name)]


def _number(folder: Path) -> int:
    return int(folder.name.partition("-")[2])
