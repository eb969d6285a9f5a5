"""Bytes counted by the kernel: at least the bytes that the transport counts, and at most 2 % more."""

from __future__ import annotations

import sys

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
