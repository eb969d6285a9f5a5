"""The bytes that this process has sent and received over TCP, counted by the Linux kernel."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

# Offsets in struct tcp_info of linux/tcp.h, since Linux 4.1, both u64.
_BYTES_ACKED, _BYTES_RECEIVED = 120, 128


def acknowledged_bytes(ports: Collection[int] | None = None) -> int:
    """Return the bytes that peers have acknowledged on the open TCP connections of this process.

    Bytes of closed connections and bytes in flight are not included.

    Parameters
    ----------
    ports : collection of int, optional
        Count the connections to these ports alone. Default: all connections.

    Raises
    ------
    OSError
        If the system has no /proc or no TCP_INFO.
    """
    return _total(_BYTES_ACKED, ports)


def received_bytes(ports: Collection[int] | None = None) -> int:
    """Return the bytes that came on the open TCP connections of this process; otherwise as `acknowledged_bytes`."""
    return _total(_BYTES_RECEIVED, ports)


def bytes_at_rest(count: Callable[[], int] = acknowledged_bytes) -> int:
    """Return a number of bytes, of `acknowledged_bytes` by default, when it has not changed for a tenth of a second."""
    last, now = -1, count()
    while now != last:
        time.sleep(0.1)
        last, now = now, count()
    return now


def _total(offset: int, ports: Collection[int] | None) -> int:
    total = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed in the meantime
            if os.readlink(link).startswith("socket:"):
                total += _counter(int(link.name), offset, ports)
    return total


def _counter(descriptor: int, offset: int, ports: Collection[int] | None) -> int:
    with socket.socket(fileno=os.dup(descriptor)) as duplicate:
        if duplicate.family not in (socket.AF_INET, socket.AF_INET6) or duplicate.type != socket.SOCK_STREAM:
            return 0
        if ports is not None and _peer_port(duplicate) not in ports:
            return 0
        info = duplicate.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, offset + 8)
    (count,) = struct.unpack_from("<Q", info, offset)
    return int(count)


def _peer_port(connection: socket.socket) -> int | None:
    try:
        return int(connection.getpeername()[1])
    except OSError:  # not connected
        return None
