"""The HTTP side of a service: the Open Inference Protocol, metrics, and the page."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hmac
import json
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from bitlane import __version__
from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.servers.failures import ServerClosing, reason_of
from bitlane.sparse.servers.lanes import RequestLimit
from bitlane.sparse.servers.newcomers import Newcomers
from bitlane.sparse.servers.wire import ServerBusy
from bitlane.sparse.serving import protocol
from bitlane.sparse.serving.metrics import ServingMetrics
from bitlane.sparse.serving.page import ServiceStatus, page_html
from bitlane.sparse.serving.served_model import NotReady, ServedModel, ServedVersion
from bitlane.support.optional import require_extra

if TYPE_CHECKING:
    from starlette.exceptions import HTTPException
    from starlette.requests import Request

BODY_SECONDS = 10.0  # in which the body of a request must come
_OPEN = ("/v2/health/live", "/v2/health/ready")  # without a token: probes ask these
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"

Handler = Callable[[Any], Awaitable[Any]]


class _Refused(Exception):
    """A request with another status than 200."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


class HttpService:
    """An ASGI application that serves one model.

    | path | |
    | --- | --- |
    | `GET /v2`, `/v2/health/live`, `/v2/health/ready` | the server |
    | `GET /v2/models/NAME`, `/v2/models/NAME/ready` | the model |
    | `POST /v2/models/NAME/infer` | predictions; see `protocol` |
    | `GET /v2/health` | which version answers, and what is wrong |
    | `GET /metrics` | for Prometheus |
    | `GET /`, `/status` | the page, and its numbers |

    ``/versions/VERSION`` may follow NAME; only the version that answers is there.

    Parameters
    ----------
    served : ServedModel
    status : ServiceStatus
    metrics : ServingMetrics
    token : str, optional
        What clients must know: a Bearer token, or the password of HTTP's basic authentication, which browsers send.
    newcomers : Newcomers, optional
        Is told of the connections that have shown the token.
    limit : int, default=64
        Bodies that are read at once; more are refused.

    Attributes
    ----------
    app : Starlette

    Raises
    ------
    BitlaneError
        Starlette is not installed.
    """

    def __init__(
        self,
        served: ServedModel,
        status: ServiceStatus,
        metrics: ServingMetrics,
        *,
        token: str | None = None,
        newcomers: Newcomers | None = None,
        limit: int = 64,
    ):
        applications = require_extra("starlette.applications", "a service over HTTP", "'bitlane[serve]'")
        self._responses = require_extra("starlette.responses", "a service over HTTP", "'bitlane[serve]'")
        self._routing = require_extra("starlette.routing", "a service over HTTP", "'bitlane[serve]'")
        self._served = served
        self._status = status
        self._metrics = metrics
        self._token, self._newcomers = token, newcomers
        self._bodies, self._pool = RequestLimit(limit), ThreadPoolExecutor(limit, "bitlane-http")
        self._closing = False
        model = "/v2/models/{model}"
        routes = [
            self._route("/", self._page),
            self._route("/status", self._show_status),
            self._route("/metrics", self._show_metrics),
            self._route("/v2", self._server),
            self._route("/v2/health", self._health),
            self._route("/v2/health/live", self._live),
            self._route("/v2/health/ready", self._ready),
        ]
        for path in (model, f"{model}/versions/{{version}}"):
            routes.append(self._route(path, self._model))
            routes.append(self._route(f"{path}/ready", self._model_ready))
            routes.append(self._route(f"{path}/infer", self._infer, "POST"))
        self.app = applications.Starlette(routes=routes, exception_handlers={404: self._missing, 405: self._missing})

    def refuse(self) -> None:
        """Answer requests for predictions from now on with 503."""
        self._closing = True

    def close(self) -> None:
        """Wait for the requests that run."""
        self._pool.shutdown()

    # --- the server
    async def _server(self, request: Request) -> Any:
        return self._json({"name": "bitlane", "version": __version__, "extensions": []})

    async def _live(self, request: Request) -> Any:
        return self._json({"live": True})

    async def _ready(self, request: Request) -> Any:
        ready = self._served.is_ready and not self._closing
        return self._json({"live": True, "ready": ready}, 200 if ready else 503)

    async def _health(self, request: Request) -> Any:
        return self._json(self._status.health())

    async def _show_status(self, request: Request) -> Any:
        return self._json(await self._in_thread(self._status.status))

    async def _show_metrics(self, request: Request) -> Any:
        return self._responses.Response(self._metrics.text(), headers={"content-type": self._metrics.content_type})

    async def _page(self, request: Request) -> Any:
        return self._responses.HTMLResponse(page_html(), headers={"content-security-policy": _POLICY})

    # --- the model
    async def _model(self, request: Request) -> Any:
        version = self._version(request)
        return self._json(
            {
                "name": self._served.name,
                "versions": [str(version.number)],
                "platform": f"bitlane_{version.model.spec.kind}",
                "inputs": protocol.input_metadata(version.schema),
                "outputs": protocol.output_metadata(),
            }
        )

    async def _model_ready(self, request: Request) -> Any:
        try:
            self._version(request)
        except NotReady:
            return self._json({"name": self._served.name, "ready": False}, 503)
        return self._json({"name": self._served.name, "ready": True})

    async def _infer(self, request: Request) -> Any:
        begin = time.perf_counter()
        try:
            if self._closing:
                raise ServerClosing("the server is shutting down")
            version = self._version(request)
            wanted = version.number if "version" in request.path_params else None
            with self._bodies.admitted():
                body = await self._read_body(request)
            with self._served.limit.admitted():
                answer = await self._in_thread(lambda: self._score(body, begin, wanted))
        except Exception as error:
            self._served.count_error("http", DataError(str(error)) if isinstance(error, _Refused) else error)
            raise
        return self._responses.Response(answer, media_type="application/json")

    def _score(self, body: bytes, begin: float, wanted: int | None) -> bytes:
        parsed: list[protocol.InferRequest] = []

        def read(version: ServedVersion) -> Batch:
            if wanted not in (None, version.number):
                raise _Refused(404, f"version {wanted} is no longer served; version {version.number} is")
            parsed.append(protocol.read_request(body))
            return protocol.batch_of_tensors(parsed[0].tensors, version, self._served.bounds)

        answer = self._served.answer("http", read, begin)
        return protocol.write_answer(self._served.name, answer, parsed[0])

    def _version(self, request: Request) -> ServedVersion:
        """Return the version that answers, if the path names it."""
        name, given = request.path_params["model"], request.path_params.get("version")
        if name != self._served.name:
            raise _Refused(404, f"unknown model {name!r}; this service has {self._served.name!r}")
        version = self._served.version
        if given not in (None, str(version.number)):
            raise _Refused(404, f"version {given} is not served; version {version.number} is")
        return version

    async def _read_body(self, request: Request) -> bytes:
        most = self._served.bounds.body_bytes
        refused = _Refused(413, f"the body has more than {most:,} bytes: send less in a request")
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > most:
            raise refused

        async def read() -> bytes:
            chunks, size = [], 0
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    raise refused
                chunks.append(chunk)
            return b"".join(chunks)

        try:
            return await asyncio.wait_for(read(), BODY_SECONDS)
        except (TimeoutError, asyncio.TimeoutError):
            raise _Refused(408, f"the body did not arrive within {BODY_SECONDS:g} s") from None

    # --- inside
    async def _in_thread(self, function: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function)

    def _route(self, path: str, handler: Handler, method: str = "GET") -> Any:
        async def answer(request: Request) -> Any:
            try:
                if self._token is not None and request.url.path not in _OPEN:
                    _check_token(request.headers.get("authorization", ""), self._token)
                if self._newcomers is not None and request.client is not None and request.url.path not in _OPEN:
                    self._newcomers.admit(request.client.host, request.client.port)
                return await handler(request)
            except Exception as error:
                return self._error(error)

        return self._routing.Route(path, answer, methods=[method])

    async def _missing(self, request: Request, error: HTTPException) -> Any:
        what = (
            f"there is no {request.url.path}" if error.status_code == 404 else f"{request.method} is not possible here"
        )
        return self._json({"error": what}, error.status_code)

    def _error(self, error: Exception) -> Any:
        message = " ".join(str(error).split()) if isinstance(error, BitlaneError | _Refused) else reason_of(error)
        headers = {}
        if isinstance(error, _Refused):
            status = error.status
        elif isinstance(error, ServerBusy | ServerClosing | NotReady):
            status, headers = 503, {"retry-after": "1"}
        else:
            status = 400 if isinstance(error, DataError) else 500
        if status == 401:
            headers = {"www-authenticate": 'Basic realm="bitlane: any name, and the token as password"'}
        return self._json({"error": message}, status, headers)

    def _json(self, record: object, status: int = 200, headers: dict[str, str] | None = None) -> Any:
        text = json.dumps(record, allow_nan=False)
        return self._responses.Response(text, status, headers=headers, media_type="application/json")


def _check_token(header: str, token: str) -> None:
    """Refuse a request whose header does not have the token."""
    kind, _, given = header.partition(" ")
    if kind.lower() == "basic":
        with contextlib.suppress(binascii.Error, ValueError):
            given = base64.b64decode(given, validate=True).decode().partition(":")[2]
    if not hmac.compare_digest(given.encode(), token.encode()):
        raise _Refused(401, "wrong token" if header else "this server needs a token")
