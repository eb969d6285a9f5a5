"""Transports: parts arrive, sent bytes are counted, and no rank waits for a failed rank."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from bitlane.compress.collectives.transport import TorchTransport, run_ranks_in_threads
from bitlane.errors import BitlaneError

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_every_part_arrives_and_is_counted(size, seed):
    lengths = np.random.default_rng(seed).integers(0, 50, (size, size))

    def content(sender, receiver):
        return torch.full((int(lengths[sender, receiver]),), 16 * sender + receiver, dtype=torch.uint8)

    def work(transport):
        own = transport.rank
        parts = [content(own, rank) for rank in range(size)]
        found = transport.exchange(parts, lengths[:, own].tolist())
        return found, transport.sent

    for rank, (found, sent) in enumerate(run_ranks_in_threads(size, work)):
        assert all(torch.equal(part, content(sender, rank)) for sender, part in enumerate(found))
        assert sent == lengths[rank].sum() - lengths[rank, rank]


def test_parts_are_copied_before_they_are_sent():
    def work(transport):
        own = torch.full((4,), transport.rank, dtype=torch.uint8)
        found = transport.exchange([own] * 2, [4, 4])
        own.fill_(9)
        return found[1 - transport.rank].tolist()

    assert run_ranks_in_threads(2, work) == [[1] * 4, [0] * 4]


def test_the_error_of_a_rank_is_raised_without_delay():
    def work(transport):
        if transport.rank == 1:
            raise ValueError("no rank like this")
        transport.exchange([torch.zeros(1, dtype=torch.uint8)] * 3, [1, 1, 1])

    start = time.monotonic()
    with pytest.raises(ValueError, match="no rank like this"):
        run_ranks_in_threads(3, work)
    assert time.monotonic() - start < 10


def test_different_lengths_are_an_error():
    def work(transport):
        transport.exchange([torch.zeros(3, dtype=torch.uint8)] * 2, [3 + transport.rank, 3])

    with pytest.raises(BitlaneError, match="rank 0 sent 3 bytes to rank 1, which expected 4"):
        run_ranks_in_threads(2, work)


def test_the_error_without_a_process_group_names_the_call():
    with pytest.raises(BitlaneError, match="init_process_group"):
        TorchTransport()
