"""Prometheus reads the live metrics of a training."""

from __future__ import annotations

import socket
import sys
import threading
import urllib.request

import pytest
from tests.helpers.sparse_training import RowsSource, TinyModel, some_rows

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.training.loop import SparseTrainingOptions, Trainer
from bitlane.sparse.training.metrics import GAUGES, MetricsServer

pytest.importorskip("prometheus_client")


def read(port: int) -> dict[str, float]:
    """The metrics by name, as a scraper reads them."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (line.split() for line in lines if not line.startswith("#"))}


def test_metrics_follow_a_training(seed: int) -> None:
    seen: list[dict[str, float]] = []
    before = set(threading.enumerate())
    with MetricsServer("0") as server:
        start = read(server.port)
        assert start["bitlane_sparse_rows_total"] == 0
        assert {f"bitlane_sparse_{name}" for name in GAUGES} <= set(start)
        trainer = Trainer(
            TinyModel(),
            RowsSource(some_rows(seed, 330)),
            SparseTrainingOptions(window_rows=100),
            on_window=[server.on_window, lambda _: seen.append(read(server.port))],
            on_rows=server.on_rows,
        )
        windows = trainer.run().windows
    assert set(threading.enumerate()) <= before
    assert [found["bitlane_sparse_rows_total"] for found in seen] == [100, 200, 300, 330]
    for found, window in zip(seen, windows, strict=True):
        assert found["bitlane_sparse_auc"] == window.quality.auc
        assert found["bitlane_sparse_log_loss"] == window.quality.log_loss
        assert found["bitlane_sparse_rmse"] != found["bitlane_sparse_rmse"]  # nan: there is none


@pytest.mark.parametrize("address", ["", "x", "-1", "70000", "localhost:", "1.5"])
def test_bad_addresses(address: str) -> None:
    with pytest.raises(DataError, match="is not a port or HOST:PORT"):
        MetricsServer(address)


def test_a_port_in_use_is_one_clear_line() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        with pytest.raises(BitlaneError, match=r"cannot be served at 127.0.0.1:\d+: Address already in use"):
            MetricsServer(str(held.getsockname()[1]))


def test_the_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(BitlaneError, match=r"pip install 'bitlane\[metrics\]'"):
        MetricsServer("0")
