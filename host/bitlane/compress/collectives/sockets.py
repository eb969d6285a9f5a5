"""The bytes that this process has sent over TCP, counted by the Linux kernel."""

from __future__ import annotations

import os
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path

_BYTES_ACKED = 120  # offset in struct tcp_info of linux/tcp.h, since Linux 4.1; u64


def acknowledged_bytes() -> int:
    """Return the bytes that peers have acknowledged on the open TCP connections of this process.

    Bytes of closed connections and bytes in flight are not included.

    Raises
    ------
    OSError
        If the system has no /proc or no TCP_INFO.
    """
    return sum(connection_bytes().values())


def connection_bytes() -> dict[str, int]:
    """Return `acknowledged_bytes` of each connection, by the kernel's name of its socket."""
    counts: dict[str, int] = {}
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed in the meantime
            name = os.readlink(link)
            if name.startswith("socket:"):
                counts[name] = _acknowledged(int(link.name))
    return counts


def bytes_at_rest() -> int:
    """Return `acknowledged_bytes` when it has not changed for a tenth of a second."""
    last, now = -1, acknowledged_bytes()
    while now != last:
        time.sleep(0.1)
        last, now = now, acknowledged_bytes()
    return now


def _acknowledged(descriptor: int) -> int:
    with socket.socket(fileno=os.dup(descriptor)) as duplicate:
        if duplicate.family not in (socket.AF_INET, socket.AF_INET6) or duplicate.type != socket.SOCK_STREAM:
            return 0
        info = duplicate.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_ACKED + 8)
    (count,) = struct.unpack_from("<Q", info, _BYTES_ACKED)
    return int(count)
