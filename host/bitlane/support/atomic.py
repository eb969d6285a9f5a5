"""Files and folders that appear complete or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder. It becomes `path` at the end, and is removed on failure."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_folder(path: Path, temporary: Path) -> Iterator[None]:
    """Make the empty folder `temporary`. It becomes `path` at the end, forced to the disk, and is removed on failure.

    `path` is missing, or an empty folder; both have the same parent.
    """
    try:
        shutil.rmtree(temporary, ignore_errors=True)  # what a killed process has left
        temporary.mkdir(parents=True)
        yield
        sync_tree(temporary)
        os.rename(temporary, path)
        sync_entries(path.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def sync_tree(folder: Path) -> None:
    """Write what the system holds back of all files below `folder`, and of the folders."""
    for below, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(below, name), "rb") as file:
                os.fsync(file.fileno())
        sync_entries(Path(below))


def sync_entries(folder: Path) -> None:
    """Write what the system holds back of the names in `folder`: files that came, went or were renamed."""
    entry = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(entry)
    finally:
        os.close(entry)
