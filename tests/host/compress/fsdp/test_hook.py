"""Sharded models with a compressor between replicas, in real processes: averages of a textbook."""

from __future__ import annotations

import os

import pytest
from tests.helpers import fsdp_scenes

from bitlane.compress.collectives.launch import launch

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def scenes():
    """Return the results of all four ranks for each scene."""
    seed = int.from_bytes(os.urandom(3), "little")
    print(f"seed of the scenes: {seed}")  # pytest shows it when a test fails
    found = launch(fsdp_scenes.play, 4, seed, timeout=300)
    return {name: [rank[name] for rank in found] for name in found[0]}


def test_uncompressed_gradients_are_those_by_hand_and_of_fsdp(scenes):
    for equal, error, steps in scenes["uncompressed"]:
        assert equal == [True] * 3 and error < 1e-6 and steps == 3


def test_each_group_has_a_reducer_with_words_of_its_own(scenes):
    """The second shard has no row of the last layer: it averages three groups."""
    assert [len(each) for each in scenes["by_reducers"]] == [5 * 4 * 8, 5 * 4 * 6] * 2
    assert all(all(each) for each in scenes["by_reducers"])


def test_replicas_end_alike_and_resumed_trainings_too(scenes):
    for ranks in zip(*scenes["resumed"], strict=True):
        parameters, resumed = zip(*ranks, strict=True)
        assert parameters[:2] == parameters[2:] and parameters[0] != parameters[1]
        assert resumed == (True,) * 4


def test_stats(scenes):
    """A group of up to 512 values is a header of 32 bytes, a scale of 4 bytes, and a byte for each value."""
    groups = [(5 + 2, 25 + 5, 40 + 4, 7 + 1), (5 + 1, 25 + 5, 30 + 3)]
    for rank, found in enumerate(scenes["counted"]):
        sizes = groups[rank % 2]
        sent = sum(32 + 4 + values for values in sizes)
        assert found == (2, sent, 2 * sent, sum(sizes), 8, 4 * sum(sizes))


def test_accumulated_passes_are_one_step(scenes):
    assert scenes["accumulated"] == [(True, 1)] * 4


def test_an_unused_parameter_has_the_gradient_0(scenes):
    assert scenes["unused"] == [[True, True]] * 4


def test_a_scaler_changes_no_bit(scenes):
    for found in scenes["with_a_scaler"]:
        assert found == [([True] * 6, [2.0**each for each in (10, 11, 11, 10, 10, 11)])] * 2


def test_low_precision(scenes):
    """The error is that of rounding to the type, of some values."""
    for bfloat16, float16 in scenes["low_precision"]:
        assert 1e-6 < bfloat16 < 2**-6 and 1e-6 < float16 < 2**-9


def test_replicas_of_a_single_shard(seed):
    for plain, coded in launch(fsdp_scenes.unsharded, 2, seed % 2**32, timeout=120):
        assert plain[0] == [True] * 3 and plain[1] < 1e-6
        assert len(coded) == 5 * 4 * 8 and all(coded)
