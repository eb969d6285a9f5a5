"""The folder of what this package downloads and builds: data sets, simulators, compiled C."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from bitlane.errors import BitlaneError


def make_cache(folder: Path, purpose: str) -> None:
    """Make a folder in the cache.

    Parameters
    ----------
    folder : Path
    purpose : str
        What is written there, for the error: "the simulator".

    Raises
    ------
    BitlaneError
        It cannot be written, as in a home of which one may only read.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        what = f"{purpose} cannot be stored in {folder} ({error.strerror})"
        raise BitlaneError(f"{what}: set BITLANE_CACHE to a folder that you may write") from error


def cache_folder() -> Path:
    """Return the folder of BITLANE_CACHE, by default `bitlane` in XDG_CACHE_HOME or ~/.cache."""
    if folder := os.environ.get("BITLANE_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bitlane"
