"""The priority of threads."""

from __future__ import annotations

import contextlib
import os
import sys
import threading

BACKGROUND = 10  # the system's "nice" value


def yield_to_others() -> None:
    """Let the calling thread, and threads that it starts from now on, run when others leave time.

    Only Linux has priorities of single threads; elsewhere this does nothing.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # already at a lower priority
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BACKGROUND)
