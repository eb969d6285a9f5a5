"""How long answers take, and how many extra requests that allows: when to ask a second replica."""

from __future__ import annotations

import threading

import numpy as np

RECENT = 512  # answers of a shard whose seconds are stored
_EVERY = 16  # answers after which the quantile is computed again
_LEAST = 32  # answers before the first
_BURST = 8.0  # extra requests that may have been saved up


class RecentLatencies:
    """The seconds of the last answers, and their quantile. For several threads.

    Parameters
    ----------
    quantile : float
    at_first : float
        What `wait` is until there are 32 answers.
    """

    def __init__(self, quantile: float, at_first: float):
        self._quantile, self.wait = quantile, at_first
        self._seconds, self._count = np.zeros(RECENT), 0
        self._lock = threading.Lock()

    def add(self, seconds: float) -> None:
        """Note an answer."""
        with self._lock:
            self._seconds[self._count % RECENT] = seconds
            self._count += 1
            if self._count >= _LEAST and self._count % _EVERY == 0:
                self.wait = float(np.quantile(self._seconds[: self._count], self._quantile))


class HedgeBudget:
    """Allows extra requests up to a share of the requests. For several threads.

    Extra requests that were not needed are saved up, 8 at most: over n requests there are ``share * n + 8`` at most.

    Parameters
    ----------
    share : float
        0: none at all.
    """

    def __init__(self, share: float):
        self._share, self._left = share, _BURST if share else 0.0
        self._lock = threading.Lock()
        self.requests = self.extra = 0

    def add(self, requests: int) -> None:
        """Count requests that are not extra."""
        with self._lock:
            self.requests += requests
            self._left = min(self._left + self._share * requests, _BURST)

    def take(self) -> bool:
        """Return whether an extra request may be sent, and count it."""
        with self._lock:
            if self._left < 1:
                return False
            self._left -= 1
            self.extra += 1
            return True
