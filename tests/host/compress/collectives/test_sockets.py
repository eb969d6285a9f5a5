"""Bytes counted by the kernel: at least the bytes that the transport counts, and at most 2 % more."""

from __future__ import annotations

import socket
import sys
import time

import pytest
from tests.helpers import rank_work

from bitlane.compress.collectives.launch import launch
from bitlane.compress.collectives.sockets import acknowledged_bytes

pytestmark = [pytest.mark.torch, pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")]


def test_the_kernel_counts_the_bytes_of_exchanges():
    sizes = (100_000, 3_000_000)
    for rank, counted in enumerate(launch(rank_work.sends, 3, sizes, timeout=100)):
        for size, (seen, sent) in zip(sizes, counted, strict=True):
            assert sent == 2 * (rank + 1) * size
            assert sent <= seen <= 1.02 * sent


def test_files_are_not_counted(tmp_path):
    with (tmp_path / "file").open("w"):
        before = acknowledged_bytes()
        assert before == acknowledged_bytes()


def test_what_one_end_receives_the_other_has_sent():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sender:
        receiver, _ = server.accept()
        with receiver:
            sent = acknowledged_bytes()
            sender.sendall(bytes(30_000))
            assert len(receiver.recv(30_000, socket.MSG_WAITALL)) == 30_000
            receiver.sendall(bytes(500))
            assert len(sender.recv(500, socket.MSG_WAITALL)) == 500
            deadline = time.monotonic() + 30
            while acknowledged_bytes() - sent < 30_500 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert acknowledged_bytes() - sent == 30_500
