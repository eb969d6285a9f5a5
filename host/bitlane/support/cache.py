"""Where fetched data sets and built simulators are kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """$BITLANE_CACHE, or ~/.cache/bitlane."""
    return Path(os.environ.get("BITLANE_CACHE") or Path.home() / ".cache" / "bitlane")
