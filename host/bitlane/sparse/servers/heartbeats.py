"""Signs of life on a lane: a client can tell a request that takes long from a server or a network that is lost."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

from bitlane.sparse.servers import wire

BEAT_SECONDS = 3.0  # from one sign to the next, and before the first
RUNNING = "running"  # in the record of a sign of life


class LaneHeart:
    """Sends signs of life while a request of its lane runs.

    Parameters
    ----------
    writer : FlightMetadataWriter
        Of the lane's answers.
    """

    def __init__(self, writer: Any):
        self._writer = writer
        self._lock = threading.Lock()  # held while something is written
        self._request: Any = None
        self._next = 0.0

    @contextlib.contextmanager
    def beating(self, request: Any) -> Iterator[None]:
        """A section in which the request of this number runs; its answer is written behind it."""
        self._next, self._request = time.monotonic() + BEAT_SECONDS, request
        try:
            yield
        finally:
            with self._lock:
                self._request = None

    def beat(self, now: float) -> None:
        """Write a sign of life if one is due."""
        if self._request is None or now < self._next:
            return
        with self._lock, contextlib.suppress(Exception):  # the lane's own thread meets the error, too
            if self._request is not None:
                self._next = now + BEAT_SECONDS
                self._writer.write_metadata(wire.to_bytes({"id": self._request, RUNNING: True}))


class Heartbeats:
    """The hearts of a server's lanes, and the thread that lets them beat."""

    def __init__(self) -> None:
        self._hearts: weakref.WeakSet[LaneHeart] = weakref.WeakSet()
        self._guard, self._stop = threading.Lock(), threading.Event()
        threading.Thread(target=self._run, name="bitlane-heartbeats", daemon=True).start()

    def of(self, writer: Any) -> LaneHeart:
        """Return the heart of a new lane; it ends with its last reference."""
        heart = LaneHeart(writer)
        with self._guard:
            self._hearts.add(heart)
        return heart

    def close(self) -> None:
        """Send no more."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(BEAT_SECONDS / 3):
            with self._guard:
                hearts = list(self._hearts)
            for heart in hearts:
                heart.beat(time.monotonic())
            del hearts
            heart = None  # type: ignore[assignment]  # else the last one lives on
