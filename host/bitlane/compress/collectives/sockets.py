"""The bytes that this process has sent and received over TCP, counted by the Linux kernel."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from pathlib import Path

# Offsets in struct tcp_info of linux/tcp.h, since Linux 4.1, both u64.
_BYTES_ACKED, _BYTES_RECEIVED = 120, 128


def acknowledged_bytes() -> int:
    """Return the bytes that peers have acknowledged on the open TCP connections of this process.

    Bytes of closed connections and bytes in flight are not included.

    Raises
    ------
    OSError
        If the system has no /proc or no TCP_INFO.
    """
    return _total(_BYTES_ACKED)


def received_bytes() -> int:
    """Return the bytes that came on the open TCP connections of this process; errors as of `acknowledged_bytes`."""
    return _total(_BYTES_RECEIVED)


def _total(offset: int) -> int:
    total = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed in the meantime
            if os.readlink(link).startswith("socket:"):
                total += _counter(int(link.name), offset)
    return total


def _counter(descriptor: int, offset: int) -> int:
    with socket.socket(fileno=os.dup(descriptor)) as duplicate:
        if duplicate.family not in (socket.AF_INET, socket.AF_INET6) or duplicate.type != socket.SOCK_STREAM:
            return 0
        info = duplicate.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, offset + 8)
    (count,) = struct.unpack_from("<Q", info, offset)
    return int(count)
