"""Exceptions of pynq and gRPC as DeviceError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bitlane.errors import DeviceError


@contextmanager
def wrap_errors(device: str, action: str, remedy: str = "") -> Iterator[None]:
    """Raise any exception of the body as a DeviceError that names the device, the action and the remedy."""
    try:
        yield
    except DeviceError:
        raise
    except Exception as error:
        raise DeviceError(f"{device}: {action} failed: {_why(error)}{remedy and '; '}{remedy}") from error


def _why(error: Exception) -> str:
    code, details = getattr(error, "code", None), getattr(error, "details", None)
    if callable(code) and callable(details):  # of gRPC
        return f"the board no longer answers ({code().name}: {details()})"
    return str(error).strip() or type(error).__name__
