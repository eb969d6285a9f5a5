"""Dion over gloo, in real processes: equal parameters, the kernel's count of bytes, and a rank that leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.helpers import dion_scenes

from bitlane.compress.collectives.launch import launch
from bitlane.compress.collectives.transport import FRAME

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def scenes():
    """Return the results of both ranks for each scene."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("the socket's count needs Linux")
    found = launch(dion_scenes.play, 2, timeout=200)
    return {name: [rank[name] for rank in found] for name in found[0]}


@pytest.mark.parametrize("name", dion_scenes.SETTINGS)
def test_parameters_are_equal_and_bytes_are_those_of_the_socket(name, scenes):
    first, second = (rank[name] for rank in scenes["over_gloo"])
    assert torch.equal(first[0], second[0])
    for _, sent, declared, at_socket in (first, second):
        assert sent == declared
        messages, rest = divmod(at_socket - sent, FRAME)
        assert rest == 0 and 6 * 3 <= messages <= 6 * 5 + 3  # of each step: a header and two averages; and the barriers


def test_eight_bits_send_a_quarter(scenes):
    sent = {name: each[1] for name, each in scenes["over_gloo"][0].items()}
    assert sent["float32"] > 3.2 * sent["eight bits"] > 6 * sent["three bits"]


def test_ddp_in_no_sync(scenes):
    assert scenes["in_no_sync"] == [True, True]


def test_a_rank_that_leaves_does_not_block_the_other(scenes):
    (first, at_once), (second, in_time) = scenes["left_alone"]
    assert first == "DataError: no more data" and at_once
    assert second.startswith("RankFailed") and in_time
