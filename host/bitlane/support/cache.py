"""The folder of downloaded data sets and built simulators."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder of BITLANE_CACHE, by default ~/.cache/bitlane."""
    return Path(os.environ.get("BITLANE_CACHE") or Path.home() / ".cache" / "bitlane")
