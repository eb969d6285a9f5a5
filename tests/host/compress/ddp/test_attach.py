"""`attach` under DDP, in real processes: any bucket may be missing, a failure or a close leaves nothing behind."""

from __future__ import annotations

import pytest
from tests.helpers import attach_scenes

from bitlane.compress.collectives.launch import launch

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def scenes():
    """Return the results of both ranks for each scene."""
    found = launch(attach_scenes.play, attach_scenes.RANKS, timeout=120)
    return {name: [rank[name] for rank in found] for name in found[0]}


def test_gradients_equal_averages_by_hand(scenes):
    """The first step of a static graph with gradients of several types is no exception."""
    assert scenes["every_option"] == [[True] * 4 * len(attach_scenes.OPTIONS)] * 2


def test_buckets_that_ddp_leaves_out_are_zeros(scenes):
    assert scenes["skipped_buckets"] == [[True] * 5] * 2


def test_a_parameter_that_the_first_step_left_out_is_named(scenes):
    for text in scenes["a_parameter_that_comes_later"]:
        assert text.startswith("DataError: a parameter of shape (40, 40) had no gradient in the first step: use")
        assert "bitlane.compress.attach" in text


def test_a_process_goes_on_after_a_failed_step(scenes):
    raised, after, steps = zip(*scenes["after_a_failure"], strict=True)
    assert raised == ("ZeroDivisionError", "RankFailed") and steps == (1, 1)
    assert after[0] == "BitlaneError: rank 0 has left the process group after an error: restart from a checkpoint"


def test_close_frees_files_and_threads(scenes):
    for counts, text in scenes["closed"]:
        assert len(set(counts[1:])) == 1
        assert "has left the process group when it was closed" in text


def test_what_attach_refuses(scenes):
    for module, wide, setting in scenes["refused"]:
        assert module == "DataError: attach takes a model in DistributedDataParallel; got Linear"
        assert wide.startswith("DataError: wide has the type torch.float64: its gradient must be float32")
        assert setting.startswith("DataError: nonfinite must be one of raise, skip, pass")


def test_the_group_is_that_of_ddp():
    assert launch(attach_scenes.subgroups, 4, timeout=120) == [[True, True]] * 4
