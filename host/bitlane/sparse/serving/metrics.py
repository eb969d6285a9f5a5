"""Metrics of a service for Prometheus: its counts, and the version that answers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

from bitlane.sparse.serving.counts import BOUNDS, LANES
from bitlane.sparse.serving.following import FollowState
from bitlane.sparse.serving.served_model import ServedModel
from bitlane.support.optional import require_extra

_PREFIX = "bitlane_serving_"


class ServingMetrics:
    """The metrics ``bitlane_serving_*`` of a service.

    | metric | labels | |
    | --- | --- | --- |
    | `requests_total`, `rows_total` | lane | answered |
    | `partial_total` | lane | answered without the weights of some shards |
    | `errors_total` | lane, kind | kind: request, busy, closing, server |
    | `seconds` | lane | histogram of the time in the service |
    | `waiting` | | requests that run or wait |
    | `version`, `version_age_seconds`, `version_served_seconds` | | of the version that answers |
    | `following` | label, problem | 1; 0 while an older version answers, by a problem of: label, version, note |
    | `recorded_total` | | requests in the record |

    Parameters
    ----------
    served : ServedModel
    follow_state : callable
        Returns the state of the follower.

    Raises
    ------
    BitlaneError
        prometheus-client is not installed.
    """

    def __init__(self, served: ServedModel, follow_state: Callable[[], FollowState]):
        self._client = require_extra("prometheus_client", "a service", "'bitlane[serve]'")
        self._core = require_extra("prometheus_client.core", "a service", "'bitlane[serve]'")
        self._served, self._follow_state = served, follow_state
        self._registry = self._client.CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    @property
    def content_type(self) -> str:
        """Of `text`."""
        return str(self._client.CONTENT_TYPE_LATEST)

    def text(self) -> bytes:
        """Return all metrics as Prometheus reads them."""
        return bytes(self._client.generate_latest(self._registry))

    def collect(self) -> Iterator[Any]:
        """Yield the metrics; prometheus-client calls it."""
        counts = self._served.counts
        for name, about, values in (
            ("requests", "Requests that were answered", counts.requests),
            ("rows", "Rows that were scored", counts.rows),
            ("partial", "Requests that were answered without the weights of some shards", counts.partial),
        ):
            family = self._core.CounterMetricFamily(_PREFIX + name, about, labels=["lane"])
            for lane in LANES:
                family.add_metric([lane], values[lane])
            yield family
        for name, about, columns in (
            ("features", "Values of categorical columns that were scored", counts.features),
            ("known_features", "Of these, those that the model knows", counts.known),
        ):
            family = self._core.CounterMetricFamily(_PREFIX + name, about, labels=["column"])
            for column, count in list(columns.items()):
                family.add_metric([column], count)
            yield family
        errors = self._core.CounterMetricFamily(_PREFIX + "errors", "Requests with an error", labels=["lane", "kind"])
        for (lane, kind), count in list(counts.errors.items()):
            errors.add_metric([lane, kind], count)
        yield errors
        yield self._histogram()
        yield from self._gauges()

    def _histogram(self) -> Any:
        counts = self._served.counts
        family = self._core.HistogramMetricFamily(
            _PREFIX + "seconds", "Seconds of a request in the service, waiting included", labels=["lane"]
        )
        for lane in LANES:
            total, buckets = 0, []
            for bound, count in zip((*BOUNDS, math.inf), list(counts.buckets[lane]), strict=True):
                total += count
                buckets.append((str(bound) if math.isfinite(bound) else "+Inf", total))
            family.add_metric([lane], buckets, counts.seconds[lane])
        return family

    def _gauges(self) -> Iterator[Any]:
        gauge, served, state = self._core.GaugeMetricFamily, self._served, self._follow_state()
        yield gauge(_PREFIX + "waiting", "Requests that run or wait", value=served.limit.count)
        if served.is_ready:
            version = served.version
            yield gauge(_PREFIX + "version", "Version that answers", value=version.number)
            served_for = time.time() - version.since
            yield gauge(_PREFIX + "version_served_seconds", "Since when this version answers", value=served_for)
            if version.created is not None:
                age = time.time() - version.created
                yield gauge(_PREFIX + "version_age_seconds", "Since the version was made", value=age)
        following = gauge(
            _PREFIX + "following", "1: the version of the label answers; 0: an older one", labels=["label", "problem"]
        )
        following.add_metric([state.label, state.problem_kind or ""], 0 if state.problem else 1)
        yield following
        if served.recorder is not None:
            recorded = self._core.CounterMetricFamily(_PREFIX + "recorded", "Requests in the record")
            recorded.add_metric([], served.recorder.recorded)
            yield recorded
