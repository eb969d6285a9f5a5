"""The messages between a coordinator and its members: JSON objects, one a line, each with a kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bitlane.errors import DataError

Message = Mapping[str, Any]
LIMIT = 1 << 24  # bytes of a line


def packed(kind: str, content: Message) -> bytes:
    """Return a message as a line."""
    return json.dumps({"kind": kind, **content}, separators=(",", ":")).encode() + b"\n"


def unpacked(line: bytes) -> dict[str, Any]:
    """Return the message of a line; raise DataError if the line is not a message."""
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
        raise DataError(f"not a message of elastic training: {line[:60]!r}; another program uses this port")
    return message


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT.

    Raises
    ------
    DataError
        If the text has another form.

    Examples
    --------
    >>> from bitlane.compress.elastic.messages import parse_address
    >>> parse_address("10.0.0.1:29500")
    ('10.0.0.1', 29500)
    """
    host, _, port = str(text).rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise DataError(f"coordinator={text!r}: give the address as HOST:PORT, such as 10.0.0.1:29500")
    return host.strip("[]"), int(port)
