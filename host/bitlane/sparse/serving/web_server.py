"""The server of HTTP: uvicorn, with a log that does not grow with what strangers send."""

# uvicorn is optional: mypy takes its classes as Any.

from __future__ import annotations

import asyncio
import errno
import logging
import time
from pathlib import Path
from typing import Any

from bitlane.support.optional import require_extra

LOG = logging.getLogger("bitlane.sparse")
_BACKLOG = 128  # connections that are taken at once
_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_LOG_SECONDS = 60.0  # between two lines that connections cannot be taken


def http_server(app: Any, tls: tuple[Path, Path] | None, grace_seconds: float) -> Any:
    """Return the server of an ASGI application, which runs by ``run([socket])``.

    Parameters
    ----------
    app : ASGI application
        ``client`` of its scopes is the other end of the connection, whatever headers say.
    tls : tuple of Path or None
        Files with certificate and key, PEM.
    grace_seconds : float
        That running requests have at the end.

    Raises
    ------
    BitlaneError
        uvicorn is not installed.
    """
    uvicorn = require_extra("uvicorn", "a service over HTTP", "'bitlane[serve]'")
    h11 = require_extra("uvicorn.protocols.http.h11_impl", "a service over HTTP", "'bitlane[serve]'")

    class Protocol(h11.H11Protocol):  # type: ignore[name-defined, misc]
        """A connection on which bytes behind a whole request do not spoil the answer to it."""

        def send_400_response(self, message: str) -> None:
            """Called by uvicorn for bytes that are not HTTP. It would answer while another answer is on its way."""
            cycle = self.cycle
            running = cycle is not None and not cycle.response_complete
            if running and (cycle.response_started or not cycle.more_body):
                cycle.keep_alive = False  # the connection ends after the answer
                return
            super().send_400_response(message)
            if running:  # its body is not HTTP: the application must neither wait for more of it nor answer
                cycle.disconnected = True
                cycle.message_event.set()

    files = {} if tls is None else {"ssl_certfile": str(tls[0]), "ssl_keyfile": str(tls[1])}
    config = uvicorn.Config(
        app,
        http=Protocol,
        log_config=None,
        log_level="error",  # a warning for each request that is no HTTP would let strangers fill the log
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=int(grace_seconds),
        **files,
    )
    server = uvicorn.Server(config)
    startup, report = server.startup, _Report()

    async def start(sockets: Any = None) -> None:
        asyncio.get_running_loop().set_exception_handler(report)
        await startup(sockets)

    server.startup = start
    return server


class _Report:
    """What the event loop calls with errors that no handler takes."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _SCARCE:
            loop.default_exception_handler(context)
        elif time.monotonic() >= self._next:  # the loop tries again every second
            self._next = time.monotonic() + _LOG_SECONDS
            LOG.warning("connections wait: %s; raise the limit of open files (ulimit -n)", error.strerror)
