"""The metrics as Prometheus reads them."""

from __future__ import annotations

import time

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.helpers.sparse_serving import constant_model

from bitlane.sparse.serving.following import FollowState
from bitlane.sparse.serving.metrics import ServingMetrics
from bitlane.sparse.serving.served_model import ServedModel, ServedVersion


def test_all_metrics_are_read_by_prometheus() -> None:
    served = ServedModel("ctr")
    state = FollowState("production", 8, None, "version 8: /a/path is damaged", "version")
    metrics = ServingMetrics(served, lambda: state)
    served.counts.add("http", 5, 0.004)
    served.counts.add("http", 5, 7.0)
    served.counts.add_features({"user": 3, "item": 4}, {"user": 0, "item": 4})
    served.counts.add_features({"user": 3, "item": 4}, {"user": 1, "item": 3})
    served.counts.add_error("flight", "busy", "busy")
    before = values_of(metrics)
    assert ("bitlane_serving_version", ()) not in before
    served.swap(ServedVersion(constant_model(7), created=time.time() - 100))
    found = values_of(metrics)
    http = ("lane", "http")
    assert found["bitlane_serving_requests_total", (http,)] == 2
    assert found["bitlane_serving_rows_total", (http,)] == 10
    assert found["bitlane_serving_errors_total", (("kind", "busy"), ("lane", "flight"))] == 1
    buckets = [found["bitlane_serving_seconds_bucket", (http, ("le", le))] for le in ("0.003", "0.005", "1.0", "+Inf")]
    assert buckets == [0, 1, 1, 2]
    assert found["bitlane_serving_seconds_sum", (http,)] == pytest.approx(7.004)
    assert found["bitlane_serving_features_total", (("column", "user"),)] == 6
    assert found["bitlane_serving_known_features_total", (("column", "user"),)] == 1
    assert found["bitlane_serving_version", ()] == 7
    assert found["bitlane_serving_version_age_seconds", ()] == pytest.approx(100, abs=10)
    assert found["bitlane_serving_following", (("label", "production"), ("problem", "version"))] == 0


def values_of(metrics: ServingMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(metrics.text().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }
