"""The folder of what this package downloads and builds: data sets, simulators, compiled C."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder of BITLANE_CACHE, by default `bitlane` in XDG_CACHE_HOME or ~/.cache."""
    if folder := os.environ.get("BITLANE_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bitlane"
