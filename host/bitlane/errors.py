"""The exceptions that bitlane raises."""

from __future__ import annotations


class BitlaneError(Exception):
    """Everything that bitlane raises on purpose."""


class DataError(BitlaneError, ValueError):
    """A value or a table from the user that cannot be used; the message names the value and says what to do."""


class DeviceError(BitlaneError, RuntimeError):
    """A device that is missing, does not answer as it should, or ended a run with an error.

    Attributes
    ----------
    code : int
        The `bitlane.contract.modes.ErrorCode` that the hardware reported, or 0 if it reported none.
    """

    def __init__(self, message: str, code: int = 0):
        super().__init__(message)
        self.code = code
