"""`attach` under DDP, in real processes: any bucket may be missing, a failure or a close leaves nothing behind."""

from __future__ import annotations

import os

import pytest
from tests.helpers import attach_scenes

from bitlane.compress.collectives.launch import launch

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module", params=[None, 40], ids=["at once", "overlap"])
def scenes(request):
    """Return the results of both ranks for each scene."""
    seed = int.from_bytes(os.urandom(3), "little")
    print(f"seed of the scenes: {seed}")  # pytest shows it when a test fails
    found = launch(attach_scenes.play, attach_scenes.RANKS, seed, request.param, timeout=120)
    return {name: [rank[name] for rank in found] for name in found[0]}


def test_gradients_equal_averages_by_hand(scenes):
    """The first step of a static graph with gradients of several types is no exception."""
    assert scenes["every_option"] == [[True] * 4 * len(attach_scenes.OPTIONS)] * 2


def test_float64_gradients_equal_averages_by_hand(scenes):
    assert scenes["double_precision"] == [[True] * 3 * len(attach_scenes.OPTIONS)] * 2


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


def test_a_model_goes_on_after_a_gradient_that_is_not_finite(scenes):
    for texts in scenes["raised_then_goes_on"]:
        for text, *equal in texts:
            assert text.startswith("DataError: step 0: the gradient of rank 1 has NaN or infinite values; use nonfin")
            assert equal == [True, True]


def test_a_scaler_changes_no_bit(scenes):
    """Its scale changes from step to step, and the residuals follow it; it sees infinities and skips the step."""
    for found in scenes["with_a_scaler"]:
        for equal, scales, uncompressed in found:
            assert equal == [True] * 8 and uncompressed == 1
            assert scales == [2.0**each for each in (10, 11, 11, 10, 10, 11, 11, 12)]


def test_the_only_bucket_of_a_model_is_its_gradient_vector(scenes):
    """A model with gradients of several types has several buckets."""
    assert scenes["one_bucket"] == [[([True] * 3, False), ([True] * 3, True)]] * 2


def test_other_parameters_keep_their_residuals_when_one_is_unfrozen(scenes):
    for lost in scenes["unfrozen"]:
        assert len(lost) == 5 and max(lost) < 1e-5, lost


def test_the_first_steps_are_uncompressed(scenes):
    assert scenes["first_steps_uncompressed"] == [([True, True, False, False], 2)] * 2


def test_mqgrad_goes_on_when_the_data_of_a_rank_have_ended(scenes):
    assert scenes["joined"] == [(8, 4.0)] * 2


def test_close_frees_files_and_threads(scenes):
    for counts, text in scenes["closed"]:
        assert len(set(counts[1:])) == 1
        assert "has left the process group when it was closed" in text


def test_what_attach_refuses(scenes):
    for module, wide, setting in scenes["refused"]:
        assert module == "DataError: attach needs a model in DistributedDataParallel; got Linear"
        assert wide.startswith("DataError: wide has the type torch.complex64: its gradient must be float64")
        assert setting.startswith("DataError: nonfinite must be one of raise, skip, pass")


def test_the_group_is_that_of_ddp():
    assert launch(attach_scenes.subgroups, 4, timeout=120) == [[True, True]] * 4
