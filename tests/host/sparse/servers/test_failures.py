"""Reasons of errors: one line each, with what to do where the user can do something."""

from __future__ import annotations

import errno

import pytest

from bitlane.sparse.servers.failures import reason_of

MEMORY = "give the server more, or move the model to more servers"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "x"), "No space left on device: make room on this disk, then try again"),
        (OSError(errno.EDQUOT, "x"), "Disk quota exceeded: make room on this disk, then try again"),
        (OSError(errno.EIO, "x"), "Input/output error"),
        (OSError("8 requested\nand 0 written"), "8 requested and 0 written"),
        (MemoryError(), f"no memory is left (MemoryError): {MEMORY}"),
        (MemoryError("8 GiB\nof it"), f"no memory is left (8 GiB of it): {MEMORY}"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_reasons(error: BaseException, reason: str) -> None:
    assert reason_of(error) == reason
