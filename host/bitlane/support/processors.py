"""How many threads do some good."""

from __future__ import annotations

import os


def processors() -> int:
    """Return the number of processors that this process may use: those of the machine, or of its affinity mask."""
    affinity = getattr(os, "sched_getaffinity", None)  # macOS and Windows have none
    return len(affinity(0)) if affinity else os.cpu_count() or 1
