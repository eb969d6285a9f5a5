"""pynq's exceptions as errors that say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bitlane.errors import DeviceError


@contextmanager
def telling(who: str, doing: str) -> Iterator[None]:
    """DeviceError that says what was being done, for whatever pynq and what is below it raise."""
    try:
        yield
    except DeviceError:
        raise
    except Exception as error:
        raise DeviceError(f"{who}: {doing} failed: {_why(error)}") from error


def _why(error: Exception) -> str:
    code, details = getattr(error, "code", None), getattr(error, "details", None)
    if callable(code) and callable(details):  # of gRPC
        return f"the board does not answer any more ({code().name}: {details()})"
    return str(error).strip() or type(error).__name__
