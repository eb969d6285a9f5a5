"""Who may call a server: a token in the header of each call, and TLS, both needed off loopback."""

from __future__ import annotations

import hmac
import ipaddress
from pathlib import Path
from typing import Any

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers.wire import flight

_HEADER = "authorization"


class TokenCheck(flight.ServerMiddlewareFactory):
    """Refuse calls without the token."""

    def __init__(self, token: str):
        super().__init__()
        self._wanted = f"Bearer {token}".encode()

    def start_call(self, info: Any, headers: Any) -> None:
        """Check the header of a call."""
        token = str((headers.get(_HEADER) or [""])[0]).encode()
        if not hmac.compare_digest(token, self._wanted):
            raise flight.FlightUnauthenticatedError("wrong token" if token else "this server needs a token")


def token_headers(token: str | None) -> list[tuple[bytes, bytes]]:
    """Return the headers of a client's calls."""
    return [] if token is None else [(_HEADER.encode(), f"Bearer {token}".encode())]


def check_exposure(host: str, token: str | None, tls: object | None) -> None:
    """Raise DataError unless the host is this machine's loopback, or there are a token and TLS."""
    if not is_loopback(host) and not (token and tls):
        missing = " and ".join(name for name, given in (("a token", token), ("TLS", tls)) if not given)
        raise DataError(f"a server on {host} can be reached from other machines: it needs {missing}")


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches `host`."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_secret(path: Path) -> str:
    """Return the text of a file with a token, a certificate or a key."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise BitlaneError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text, at byte {error.start}: save it as UTF-8") from error
    if not text:
        raise DataError(f"{path} is empty")
    return text
