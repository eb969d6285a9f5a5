"""Counts, histograms and percentiles of requests."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.sparse.serving import counts
from bitlane.sparse.serving.counts import BOUNDS, RequestCounts


def test_percentiles_and_buckets_are_those_of_the_requests(seed: int) -> None:
    times, found = np.random.default_rng(seed).lognormal(-5, 1, 900), RequestCounts()
    for each in times:
        found.add("flight", 3, float(each))
    minute = found.state()["minute"]
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)):
        assert minute[name] == pytest.approx(1e3 * np.quantile(times, share))
    assert (minute["requests"], minute["rows"]) == (900 / 60, 2700 / 60)
    for at, bound in enumerate(BOUNDS):
        assert sum(found.buckets["flight"][: at + 1]) == (times <= bound).sum()
    assert sum(found.buckets["flight"]) == 900


def test_only_the_last_minute_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now, found = [1000.0], RequestCounts()
    monkeypatch.setattr(counts.time, "monotonic", lambda: now[0])
    found.add("http", 1, 0.5)
    now[0] += 61
    assert found.state()["minute"] == {"requests": 0.0, "rows": 0.0}
    for _ in range(counts.RECENT + 10):
        now[0] += 0.001
        found.add("http", 2, 0.25)
    minute = found.state()["minute"]
    assert minute["p50"] == minute["p999"] == 250.0
    assert minute["requests"] == pytest.approx(1000, rel=0.01) and minute["rows"] == pytest.approx(2000, rel=0.01)


def test_the_newest_errors_come_first() -> None:
    found = RequestCounts()
    for each in range(30):
        found.add_error("http", "request", f"error {each}")
    state = found.state()
    assert state["errors"] == [{"lane": "http", "kind": "request", "count": 30}]
    assert [each["message"] for each in state["newest_errors"]][:2] == ["error 29", "error 28"]
    assert len(state["newest_errors"]) == 20
