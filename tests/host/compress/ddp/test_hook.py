"""The hook under DDP, in real processes: what parameters get is what the ranks' gradients make by hand."""

from __future__ import annotations

import pytest
from tests.helpers import ddp_scenes

from bitlane.compress.collectives.launch import launch

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def scenes():
    """What both ranks saw in each scene."""
    found = launch(ddp_scenes.play, ddp_scenes.RANKS, timeout=120)
    return {name: [rank[name] for rank in found] for name in found[0]}


@pytest.mark.parametrize("scene", ["mixed_types", "unused", "bucket_sizes"])
def test_every_case_is_as_by_hand(scenes, scene):
    checks = len(scenes[scene][0])
    assert checks >= 3
    assert scenes[scene] == [[True] * checks] * ddp_scenes.RANKS


def test_passes_without_synchronisation_add_up_to_one_step(scenes):
    assert scenes["accumulation"] == [([True, True], 2)] * 2


def test_a_rank_that_is_done_counts_as_zeros(scenes):
    assert scenes["uneven"] == [(True, 3)] * 2


def test_new_objects_go_on_as_the_old_would_have(scenes):
    assert scenes["resumed"] == [True] * 2


def test_stats(scenes):
    """457 values, the three types one after the other: a group of 457 codes, and a round of 32 bytes."""
    for stats, ratio, density, total_ratio in scenes["stats"]:
        assert stats["bytes_sent"] == 32 + 4 + 457
        assert stats["ring_bytes"] == 4 * 457
        assert stats["total"].bytes_sent == 3 * 493
        assert ratio == total_ratio == 493 / (4 * 457)
        assert stats["bits"] == 8 and stats["steps"] == 3 and 0.5 < density <= 1
        assert 0 < stats["codec_seconds"] < stats["total"].codec_seconds < 60
        assert 0 < stats["communication_seconds"] < stats["total"].communication_seconds < 60


def test_gradients_that_are_not_compressed_are_refused_on_every_rank(scenes):
    for double, sparse, fine in scenes["refusals"]:
        assert double.startswith("DataError: gradients of torch.float64 are not compressed")
        assert sparse.startswith("DataError: sparse gradients are not compressed")
        assert fine == "nothing"


def test_fsdp_is_refused(scenes):
    for text in scenes["fsdp"]:
        assert text.startswith("DataError: DDPCompression averages the buckets of DistributedDataParallel; FSDP2")
