"""A service in one process: Arrow Flight, HTTP, and the label that they follow."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers.lanes import address_of, listen
from bitlane.sparse.servers.newcomers import Newcomers
from bitlane.sparse.servers.security import check_exposure, read_secret
from bitlane.sparse.serving.flight import ScoringService
from bitlane.sparse.serving.following import POLL_SECONDS, Follower, VersionSource
from bitlane.sparse.serving.metrics import ServingMetrics
from bitlane.sparse.serving.page import ServiceStatus
from bitlane.sparse.serving.recording import Recorder
from bitlane.sparse.serving.requests import RequestBounds
from bitlane.sparse.serving.served_model import ServedModel
from bitlane.sparse.serving.web import HttpService
from bitlane.sparse.serving.web_server import http_server
from bitlane.support.optional import require_extra

GRACE_SECONDS = 30.0  # that running requests have at the end
_START_SECONDS = 30.0


@dataclass(frozen=True)
class ServerOptions:
    """How a service is reached, and how much it takes.

    Attributes
    ----------
    host : str, default="127.0.0.1"
        Others need a token and TLS.
    port, flight_port : int, default=0
        0: any free one.
    token : str, optional
        What clients must know.
    tls : tuple of Path, optional
        Files with certificate and key, PEM.
    limit : int, default=64
        Requests that run or wait; more are refused.
    threads : int, optional
        Requests that are scored at once. Default: the number of processor cores.
    bounds : RequestBounds
    poll : float, default=0.5
        Seconds between looks at the label.
    cache : Path, optional
        A local folder for copies of remote files.
    record : Path, optional
        A new file for a share of the requests.
    record_share : float, default=0.01
    """

    host: str = "127.0.0.1"
    port: int = 0
    flight_port: int = 0
    token: str | None = field(default=None, repr=False)
    tls: tuple[Path, Path] | None = None
    limit: int = 64
    threads: int | None = None
    bounds: RequestBounds = field(default_factory=RequestBounds)
    poll: float = POLL_SECONDS
    cache: Path | None = None
    record: Path | None = None
    record_share: float = 0.01


class ScoringServer:
    """Serves one model over Arrow Flight and HTTP. A context manager: its end waits for the requests that run.

    Parameters
    ----------
    name : str
        Of the model.
    source : VersionSource
        Its registry.
    label : str
        A label, a version's number, or ``latest``.
    options : ServerOptions, optional

    Attributes
    ----------
    served : ServedModel
    follower : Follower
    http_address, flight_address : str
        ``host:port``, while it runs.

    Raises
    ------
    DataError
        A host that other machines reach, without token or TLS.
    BitlaneError
        A library is missing.
    """

    def __init__(self, name: str, source: VersionSource, label: str, options: ServerOptions | None = None):
        self._options = options = options or ServerOptions()
        require_extra("uvicorn", "a service over HTTP", "'bitlane[serve]'")
        check_exposure(options.host, options.token, options.tls)
        if not name or "/" in name:
            raise DataError(f"the name of a model must have no '/'; got {name!r}")
        self._label, self._source = label, source
        self.served = ServedModel(name, bounds=options.bounds, limit=options.limit, threads=options.threads)
        self.follower = Follower(source, label, self.served, poll=options.poll, cache=options.cache)
        self._stack = contextlib.ExitStack()
        self.http_address = self.flight_address = ""

    def start(self) -> None:
        """Load the version of the label, and answer requests from then on.

        Raises
        ------
        BitlaneError
            There is no such version, it cannot be loaded, a port is taken, or a file cannot be read or made.
        """
        try:
            self._start()
        except BaseException:
            self._stack.close()
            if self.served.recorder is not None:
                self.served.recorder.path.unlink()
            raise

    def close(self) -> None:
        """Refuse new requests, wait for those that run, and stop."""
        self._stack.close()

    def __enter__(self) -> ScoringServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> None:
        options, stack = self._options, self._stack
        stack.enter_context(self.follower)
        if options.record is not None:
            self.served.recorder = stack.enter_context(Recorder(options.record, options.record_share))
        secrets = None if options.tls is None else (read_secret(options.tls[0]), read_secret(options.tls[1]))
        flight = ScoringService(self.served, options.host, options.flight_port, token=options.token, tls=secrets)
        stack.callback(self._end_flight, flight)
        self.flight_address = address_of(options.host, flight.port)
        newcomers = Newcomers()
        status = ServiceStatus(self.served, self.follower, self._source)
        http = HttpService(
            self.served,
            status,
            ServingMetrics(self.served, lambda: self.follower.state),
            token=options.token,
            newcomers=newcomers,
            limit=options.limit,
        )
        self._start_http(http, newcomers)

    def _start_http(self, http: HttpService, newcomers: Newcomers) -> None:
        options = self._options
        listening = self._stack.enter_context(listen(options.host, options.port))
        server = http_server(http.app, options.tls, GRACE_SECONDS)
        thread = threading.Thread(target=server.run, args=([listening],), name="bitlane-http", daemon=True)
        thread.start()

        def end() -> None:
            http.refuse()
            server.should_exit = True
            thread.join()
            http.close()

        self._stack.callback(end)
        until = time.monotonic() + _START_SECONDS
        while not server.started:
            if not thread.is_alive() or time.monotonic() > until:
                raise BitlaneError(f"the HTTP server did not start at {options.host}:{options.port}")
            time.sleep(0.01)
        port = listening.getsockname()[1]
        self._stack.callback(newcomers.close)
        newcomers.watch(port)
        self.http_address = address_of(options.host, port)

    def _end_flight(self, flight: ScoringService) -> None:
        """Let running requests end. Flight itself ends when its clients do: a thread waits for that."""
        flight.refuse()
        until = time.monotonic() + GRACE_SECONDS
        while self.served.limit.count and time.monotonic() < until:
            time.sleep(0.01)
        threading.Thread(target=flight.shutdown, name="bitlane-flight-end", daemon=True).start()
