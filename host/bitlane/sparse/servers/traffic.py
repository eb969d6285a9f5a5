"""Counts of the requests and the bytes of a server, for each lane."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any


class Traffic:
    """Requests and bytes since the server has started, without what the transport adds. For several threads.

    Parameters
    ----------
    lanes : iterable of str
    """

    def __init__(self, lanes: Iterable[str]):
        self._lock = threading.Lock()
        self._counts = {lane: {"requests": 0, "received": 0, "sent": 0} for lane in lanes}

    def add(self, lane: str, received: int, sent: int) -> None:
        """Count a request of a lane and its answer, in bytes."""
        counts = self._counts[lane]
        with self._lock:
            counts["requests"] += 1
            counts["received"] += received
            counts["sent"] += sent

    def state(self) -> dict[str, Any]:
        """Return requests, and bytes received and sent, by lane."""
        with self._lock:
            return {lane: dict(counts) for lane, counts in self._counts.items()}
