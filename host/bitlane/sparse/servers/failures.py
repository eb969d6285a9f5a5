"""Why a request or a file failed, in words for the user."""

from __future__ import annotations

import errno
import os

from bitlane.errors import BitlaneError

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class ShardStopped(BitlaneError):
    """The shard takes no more requests: it was closed, or its memory no longer agrees with its log."""


class ServerClosing(BitlaneError):
    """The server is about to end; the request may be sent again to its successor."""


class ShardMoved(ShardStopped, ServerClosing):
    """Another server has taken the shard over."""


def reason_of(error: BaseException) -> str:
    """Return the reason of an error in one line, with what to do if disk or memory are full."""
    words = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, MemoryError):
        return f"no memory is left ({words}): give the server more, or move the model to more servers"
    if not isinstance(error, OSError):
        return f"{type(error).__name__}: {words}"
    reason = os.strerror(error.errno) if error.errno else words
    return f"{reason}: make room on this disk, then try again" if error.errno in _DISK_FULL else reason
