"""What a service counts: requests, errors, rows and seconds, for the metrics and for the page."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

import numpy as np

LANES = ("flight", "http")
BOUNDS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.007, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0)  # seconds
RECENT = 4096  # requests whose seconds are stored for percentiles
_MINUTE = 60.0
_NEWEST_ERRORS = 20


class RequestCounts:
    """Counts of the requests since the service has started. For several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests = dict.fromkeys(LANES, 0)  # answered
        self.rows = dict.fromkeys(LANES, 0)
        self.partial = dict.fromkeys(LANES, 0)  # answered without the weights of some shards
        self.seconds = dict.fromkeys(LANES, 0.0)
        self.buckets = {lane: [0] * (len(BOUNDS) + 1) for lane in LANES}  # requests by seconds: up to each bound
        self.features: Counter[str] = Counter()  # that were scored, by column
        self.known: Counter[str] = Counter()  # of these, those with keys that the model has
        self.errors: Counter[tuple[str, str]] = Counter()  # by lane and kind
        self._newest: deque[dict[str, Any]] = deque(maxlen=_NEWEST_ERRORS)
        self._ends = np.zeros(RECENT)  # monotonic
        self._recent = np.zeros(RECENT)  # seconds of the requests that ended then
        self._recent_rows = np.zeros(RECENT, np.int64)

    def add(self, lane: str, rows: int, seconds: float, is_partial: bool = False) -> None:
        """Count a request that was answered; `is_partial`: without the weights of some shards."""
        bucket = bisect_left(BOUNDS, seconds)
        with self._lock:
            at = sum(self.requests.values()) % RECENT
            self.requests[lane] += 1
            self.rows[lane] += rows
            self.partial[lane] += is_partial
            self.seconds[lane] += seconds
            self.buckets[lane][bucket] += 1
            self._ends[at] = time.monotonic()
            self._recent[at] = seconds
            self._recent_rows[at] = rows

    def add_features(self, counted: Mapping[str, int], known: Mapping[str, int]) -> None:
        """Count the features of a request, and those that the model knows, by column."""
        with self._lock:
            self.features.update(counted)
            self.known.update(known)

    def add_error(self, lane: str, kind: str, message: str) -> None:
        """Count a request that got an error."""
        with self._lock:
            self.errors[lane, kind] += 1
            self._newest.append({"time": time.time(), "lane": lane, "kind": kind, "message": message})

    def state(self) -> dict[str, Any]:
        """Return the counts, and those of the last minute with percentiles in milliseconds, as JSON takes them.

        If more than `RECENT` requests came in the last minute, rates and percentiles are those of the last ones.
        """
        with self._lock:
            total = {"requests": dict(self.requests), "rows": dict(self.rows)}
            errors = [{"lane": lane, "kind": kind, "count": count} for (lane, kind), count in self.errors.items()]
            newest = list(self._newest)[::-1]
            ends, recent, rows = self._ends.copy(), self._recent.copy(), self._recent_rows.copy()
        now = time.monotonic()
        chosen = (ends > now - _MINUTE) & (ends > 0)
        count = int(chosen.sum())
        span = _MINUTE if count < RECENT else max(now - float(ends.min()), 1e-9)
        minute: dict[str, Any] = {"requests": count / span, "rows": float(rows[chosen].sum()) / span}  # a second
        if count:
            names = ("p50", "p90", "p99", "p999")
            quantiles = np.quantile(recent[chosen], (0.5, 0.9, 0.99, 0.999))
            minute |= {name: 1e3 * float(each) for name, each in zip(names, quantiles, strict=True)}
        return {"total": total, "minute": minute, "errors": errors, "newest_errors": newest}
