"""The hook under DDP, in real processes: the gradients equal averages computed by hand."""

from __future__ import annotations

import pytest
from tests.helpers import ddp_scenes

from bitlane.compress.collectives.launch import launch

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def scenes():
    """Return the results of both ranks for each scene."""
    found = launch(ddp_scenes.play, ddp_scenes.RANKS, timeout=120)
    return {name: [rank[name] for rank in found] for name in found[0]}


@pytest.mark.parametrize("scene", ["mixed_types", "unused", "bucket_sizes"])
def test_gradients_equal_averages_by_hand(scenes, scene):
    checks = len(scenes[scene][0])
    assert checks >= 3
    assert scenes[scene] == [[True] * checks] * ddp_scenes.RANKS


def test_accumulated_passes_are_one_step(scenes):
    assert scenes["accumulation"] == [([True, True], 2)] * 2


def test_a_finished_rank_counts_as_zeros(scenes):
    assert scenes["uneven"] == [(True, 3)] * 2


def test_resumed_objects_continue_identically(scenes):
    assert scenes["resumed"] == [True] * 2


def test_stats(scenes):
    """457 values of three types are one group: a header of 32 bytes, a scale of 4 bytes and 457 codes."""
    for stats, ratio, total_ratio in scenes["stats"]:
        assert stats["bytes_sent"] == 32 + 4 + 457
        assert stats["ring_bytes"] == 4 * 457
        assert stats["total"].bytes_sent == 3 * 493
        assert ratio == total_ratio == 493 / (4 * 457)
        assert stats["bits"] == 8 and stats["steps"] == 3
        assert 0 < stats["codec_seconds"] < stats["total"].codec_seconds < 60
        assert 0 < stats["communication_seconds"] < stats["total"].communication_seconds < 60


def test_unsupported_gradients_are_rejected_on_every_rank(scenes):
    for complex_values, sparse, fine in scenes["refusals"]:
        assert complex_values.startswith("DataError: gradients of torch.complex64 are not supported: use float64, floa")
        assert sparse.startswith(
            "DataError: sparse gradients are not supported: create the embedding with sparse=False"
        )
        assert fine == "nothing"


def test_fsdp_is_rejected(scenes):
    for text in scenes["fsdp"]:
        assert text.startswith(
            "DataError: DDPCompression is a hook of DistributedDataParallel without compiled autograd"
        )


def test_scenes_with_overlap():
    """Averages of small segments beside the backward pass keep every promise of those at its end."""
    for rank in launch(ddp_scenes.play_with_overlap, ddp_scenes.RANKS, timeout=120):
        assert rank.pop("accumulation") == ([True, True], 2)
        assert rank.pop("uneven") == (True, 3)
        assert rank.pop("resumed") is True
        assert len(rank) == 3 and all(all(equal) for equal in rank.values()), rank
