"""What bitlane raises."""

from __future__ import annotations

from .contract import ErrorCode


class BitlaneError(Exception):
    """Everything that bitlane raises on purpose."""


class DataError(BitlaneError, ValueError):
    """A value or a table from the user that cannot be used; the message says which and what to do."""


class DeviceError(BitlaneError, RuntimeError):
    """A device that is missing, does not answer as it should, or ended a run with an error.

    Attributes
    ----------
    code: the error code that the hardware gave; `ErrorCode.NONE` where it gave none.
    """

    def __init__(self, message: str, code: ErrorCode = ErrorCode.NONE):
        super().__init__(message)
        self.code = code
