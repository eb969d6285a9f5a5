"""What a disk or a memory that is full means, in words for the user."""

from __future__ import annotations

import errno
import os

_FULL = (errno.ENOSPC, errno.EDQUOT)


def disk_reason(error: OSError) -> str:
    """Return why a file cannot be written, and what to do if the disk is full; without the file's name."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"{reason}: make room on this disk, then try again" if error.errno in _FULL else reason


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the system gave no memory: numpy, numba and Arrow raise MemoryError, a mapping OSError."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


def memory_reason(error: BaseException) -> str:
    """Return what an error of `is_out_of_memory` means, and what to do; one line."""
    detail = " ".join(str(error).split())
    return f"no memory is left ({detail or type(error).__name__}): give the server more, or spread the model over more"
