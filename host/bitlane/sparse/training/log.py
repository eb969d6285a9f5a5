"""`run.jsonl`: the log of a training, one JSON object a line, readable while it grows.

The first line has the settings (kind "sparse-run"). A line follows for each window of rows (kind "window"), for each
resumption ("resumed"), for the held-out evaluation ("test"), and one when the training ends ("end").
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bitlane.errors import BitlaneError, DataError
from bitlane.reporting.records import plain

NAME = "run.jsonl"
KIND = "sparse-run"
FORMAT = 1

Line = dict[str, Any]


class RunLog:
    """The log of a training that runs. One process at a time can hold it.

    Parameters
    ----------
    folder : Path
        An existing folder.

    Raises
    ------
    DataError
        Another process holds the log.
    BitlaneError
        The file cannot be written.
    """

    def __init__(self, folder: Path):
        self.path = folder / NAME
        with self._clear_errors():
            self._file = self.path.open("ab")
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._file.close()
                raise DataError(f"{folder}: another training writes to this run folder") from None

    def cut(self, size: int) -> None:
        """Remove what follows the first `size` bytes."""
        with self._clear_errors():
            self._file.truncate(size)

    def append(self, kind: str, line: Mapping[str, Any]) -> None:
        """Write a line, which readers see at once. Numbers that are not finite become null."""
        text = json.dumps({"kind": kind, **plain(line)}, allow_nan=False)
        with self._clear_errors():
            self._file.write(text.encode() + b"\n")
            self._file.flush()

    def position(self) -> int:
        """Return the size of the file in bytes, all of which is on the disk."""
        with self._clear_errors():
            os.fsync(self._file.fileno())
            return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Close the file. What could not be written is lost, without an error."""
        with suppress(OSError):
            self._file.close()

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BitlaneError(f"{self.path} cannot be written: {error.strerror or error}") from error


def is_held(folder: str | Path) -> bool:
    """Return whether a training, of this machine or on a file system that shares its locks, holds the log."""
    try:
        with (Path(folder) / NAME).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def read_log(folder: str | Path) -> list[Line]:
    """Return the lines of the log in a run folder, the header first, whether the training runs, ended or was killed.

    A last line without an end, which a killed training can leave, is left out.

    Raises
    ------
    DataError
        The folder has no log of a sparse training, or the log is damaged.
    """
    path = Path(folder) / NAME
    try:
        *complete, _ = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        raise DataError(f"{folder} is not a run folder of a sparse training: it has no {NAME}") from None
    lines: list[Line] = []
    for number, text in enumerate(complete, 1):
        try:
            lines.append(dict(json.loads(text)))
        except (ValueError, TypeError):
            raise DataError(f"{path} is damaged in line {number}") from None
    if not lines:
        raise DataError(f"{path} has no line yet: the training is being started, or was killed at once")
    if lines[0].get("kind") != KIND:
        raise DataError(f"{path} is not the log of a sparse training")
    if lines[0].get("format") != FORMAT:
        raise DataError(f"{path} has format {lines[0].get('format')!r}, this bitlane reads {FORMAT}")
    return lines
