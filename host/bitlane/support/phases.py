"""Where the time of a call goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class PhaseClock:
    """Adds up the seconds of phases. A phase inside another one is not counted in the outer one. For one thread.

    Attributes
    ----------
    seconds : dict of str to float
        Seconds on the wall clock of each phase so far, in the order in which they first began.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._running: list[str] = []
        self._since = 0.0

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Count the seconds of a block as those of a phase."""
        self._count()
        self._running.append(phase)
        self.seconds.setdefault(phase, 0.0)
        try:
            yield
        finally:
            self._count()
            self._running.pop()

    def _count(self) -> None:
        now = time.perf_counter()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now
