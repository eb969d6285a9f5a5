"""Live metrics of a training for Prometheus, by HTTP."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from bitlane.errors import BitlaneError, DataError
from bitlane.support.optional import require_extra

from .windows import Window, fields

HOST = "127.0.0.1"
GAUGES = {
    "auc": "Area under the ROC curve of the last window, before its rows were learned",
    "log_loss": "Log loss of the last window in nats, before its rows were learned",
    "rmse": "Root mean squared error of the last window, before its rows were learned",
    "calibration": "Mean prediction over mean label of the last window",
    "rows_per_second": "Rows learned in a second, in the last window",
    "waiting": "Share of the time that the training waited for the reader, in the last window",
    "epoch": "The epoch of the last window, from 0",
    "table_rows": "Keys that the model has",
    "table_bytes": "Memory of the table in bytes",
    "memory_over_data": "Memory of the table over the bytes of its keys and values",
}


class MetricsServer:
    """Serves the metrics ``bitlane_sparse_*`` at ``http://HOST:PORT/metrics``; a context manager.

    `on_window` and `on_rows` are callbacks for `bitlane.sparse.training.loop.Trainer`.

    Parameters
    ----------
    address : str
        A port, or a host and a port such as ``0.0.0.0:9100``. Without a host only this machine can read the metrics.
        Port 0 is any free port.

    Attributes
    ----------
    port : int

    Raises
    ------
    DataError
        The address is none, or in use.
    BitlaneError
        prometheus-client is not installed.
    """

    def __init__(self, address: str):
        host, _, port = address.rpartition(":")
        if not port.isdecimal() or int(port) > 65535:
            raise DataError(f"{address!r} is not a port or HOST:PORT, for example 9100")
        client = require_extra("prometheus_client", "an endpoint for Prometheus", "'bitlane[metrics]'")
        registry = client.CollectorRegistry()
        self._rows = client.Counter("bitlane_sparse_rows", "Rows that were learned", registry=registry)
        self._gauges: dict[str, Any] = {
            name: client.Gauge(f"bitlane_sparse_{name}", about, registry=registry) for name, about in GAUGES.items()
        }
        for gauge in self._gauges.values():
            gauge.set(float("nan"))
        try:
            self._server, self._thread = client.start_http_server(int(port), host or HOST, registry)
        except OSError as error:
            raise BitlaneError(f"metrics cannot be served at {host or HOST}:{port}: {error.strerror}") from error
        self.port = int(self._server.server_port)

    def on_window(self, window: Window) -> None:
        """Show a window."""
        line = fields(window)
        for name, gauge in self._gauges.items():
            gauge.set(float("nan") if line[name] is None else line[name])

    def on_rows(self, rows: int) -> None:
        """Count rows that were learned."""
        self._rows.inc(rows)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
