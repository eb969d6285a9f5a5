"""Small files of the registry: JSON with a checksum, so that a flipped bit is detected in them too."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from bitlane.errors import DataError
from bitlane.reporting.records import plain

FORMAT = 1
_SEAL = "checksum"

Record = dict[str, Any]


class NewerFormat(DataError):
    """A record that a newer version has written."""


def to_bytes(record: Mapping[str, Any]) -> bytes:
    """Return a record of plain values as JSON, with its format and its checksum."""
    content = plain({"format": FORMAT, **record})
    return _text({**content, _SEAL: hashlib.sha256(_text(content)).hexdigest()})


def from_bytes(data: bytes, name: str) -> Record:
    """Return the record of `to_bytes`, without format and checksum.

    Parameters
    ----------
    data : bytes
    name : str
        Of the file, for messages.

    Raises
    ------
    NewerFormat
    DataError
        It is damaged.
    """
    try:
        record = json.loads(data)
        version = record.pop("format")
        seal = record.pop(_SEAL, None)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{name} is damaged: it is not a JSON record") from error
    content = {"format": version, **record}
    is_canonical = _text({**content, _SEAL: seal}) == data
    if is_canonical and seal == hashlib.sha256(_text(content)).hexdigest() and version == FORMAT:
        return dict(record)
    if isinstance(version, int) and version > FORMAT:
        was_ours = seal == hashlib.sha256(_text({"format": FORMAT, **record})).hexdigest()
        if not was_ours:  # else only the number of the format has changed
            raise NewerFormat(f"{name} has format {version}; this bitlane reads format {FORMAT}: install a newer one")
    raise DataError(f"{name} is damaged: its checksum does not match its content")


def now() -> str:
    """Return the time as UTC in ISO 8601, with microseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


def seconds_since(time: str) -> float:
    """Return the seconds since a time of `now`."""
    return (datetime.now(timezone.utc) - datetime.fromisoformat(time)).total_seconds()


def _text(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, indent=1, allow_nan=False) + "\n").encode()
