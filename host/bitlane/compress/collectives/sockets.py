"""What the kernel says that this process has sent over TCP (Linux): to hold against what compressors say."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from pathlib import Path

_BYTES_ACKED = 120  # offset of tcpi_bytes_acked, u64, in struct tcp_info of linux/tcp.h, since Linux 4.1


def acknowledged_bytes() -> int:
    """Bytes that the other ends of this process's open TCP connections have acknowledged so far.

    What closed connections sent is not in it, and neither is what is still under way. OSError where the system has no
    /proc or no TCP_INFO.
    """
    total = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed meanwhile
            if os.readlink(link).startswith("socket:"):
                total += _acknowledged(int(link.name))
    return total


def _acknowledged(descriptor: int) -> int:
    with socket.socket(fileno=os.dup(descriptor)) as twin:
        if twin.family not in (socket.AF_INET, socket.AF_INET6) or twin.type != socket.SOCK_STREAM:
            return 0
        info = twin.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_ACKED + 8)
    (acked,) = struct.unpack_from("<Q", info, _BYTES_ACKED)
    return int(acked)
