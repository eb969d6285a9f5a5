"""Errors of sharded models with a compressor between replicas: on all ranks, in one line, without a wait."""

from __future__ import annotations

import pytest
from tests.helpers import fsdp_error_scenes

from bitlane.compress.collectives.launch import launch
from bitlane.errors import BitlaneError

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def scenes():
    """Return the results of all four ranks for each scene."""
    found = launch(fsdp_error_scenes.play, 4, timeout=300)
    return {name: [rank[name] for rank in found] for name in found[0]}


def test_a_gradient_that_is_not_finite_raises_on_all_ranks(scenes):
    """NaN is in a shard that ranks 0 and 2 hold. Their residual of it does not change, and the model goes on."""
    for rank, ((text, kept, _, again), skipped, passed) in enumerate(scenes["not_finite"]):
        if rank % 2 == 0:
            assert text.startswith(
                "DataError: step 1: the gradient of rank 0 has NaN or infinite values; use nonfinite"
            )
            assert kept
        else:
            assert text == "RankFailed: shard 0 of this replica failed: see the error message of that rank"
        assert again == "nothing"
        assert skipped == ("nothing", rank % 2 == 0, rank % 2 == 0, "nothing")
        assert passed == ("nothing", rank % 2 == 0, False, "nothing")


def test_a_failing_rank_raises_on_all(scenes):
    raised, steps, after = zip(*scenes["failing"], strict=True)
    assert raised == ("RankFailed", "ZeroDivisionError", "RankFailed", "RankFailed") and steps == (1,) * 4
    assert all("has left the process group when it was closed" in text for text in after)


def test_different_modules_on_replicas_are_refused(scenes):
    same = "(all replicas must use the same modules in a step)"
    for other, order in scenes["different_modules"]:
        assert other.startswith("DataError: ranks have different settings: rank 0 has a gradient of ")
        assert order == (
            f"DataError: ranks have different settings: rank 0 has a gradient of 'right' {same}, rank 1 has a gradient "
            f"of 'left' {same}"
        )


def test_what_attach_fsdp_refuses(scenes):
    for texts in scenes["refused"]:
        wanted = (
            "attach_fsdp needs a model sharded by fully_shard; got Linear",
            "a parameter of the outermost module of shape (10,) is sharded with a mesh of replicas and shards, and "
            'FSDP averages it over the replicas itself: shard with mesh["shard"] alone, and attach with '
            'mesh["replicate"]',
            "ranks [0, 1, 2, 3] are both replicas and shards: create a mesh of two dimensions (replicate, shard), "
            'shard with mesh["shard"], and attach with mesh["replicate"]',
            'replicas must be a DeviceMesh, such as mesh["replicate"]; got ProcessGroup',
            'replicas must be a mesh of one dimension, such as mesh["replicate"]; got 2',
            "a parameter of the outermost module of shape (3, 5) is reduced as torch.complex64: use float64, float32, "
            "bfloat16 or float16 (reduce_dtype of its policy)",
            "no sharded parameter of the model has requires_grad=True: there is nothing to average",
            *(
                f"{policy}(...) needs the time of a step, and FSDP averages a step in groups: use a number of "
                "bits, or Adaptive()"
                for policy in ("MQGrad", "BitAllocation")
            ),
            "a parameter of the outermost module of shape (3, 5) is sharded over 2 dimensions: tensor parallelism with "
            "attach_fsdp is not supported",
            "'inner' is sharded over ranks [0, 1, 2, 3], and the outermost module over others: attach_fsdp needs one "
            "mesh for the model",
            "nonfinite must be one of raise, skip, pass; got 'drop'",
        )
        assert texts == [f"DataError: {each}" for each in wanted]


def test_what_states_and_frozen_layers_raise(scenes):
    for rank, (before, other, odd, frozen) in enumerate(scenes["frozen_later"]):
        assert before == "DataError: there is no state before the first step"
        assert other == f"DataError: the saved state has shard 5 of 9 instead of {rank % 2} of 2"
        assert odd == "DataError: the saved state has a group of 'head', which the model does not have"
        assert frozen == (
            "DataError: FSDP reduced 25 values of 'first' instead of 30: after freezing or unfreezing parameters, "
            "shard the model again and attach again"
        )


def test_a_killed_rank_raises_on_all(tmp_path):
    with pytest.raises(BitlaneError, match="rank 1 was ended by signal SIGKILL"):
        launch(fsdp_error_scenes.killed, 4, tmp_path, timeout=120)
    seconds = [float((tmp_path / f"error-{rank}.txt").read_text().split()[1]) for rank in (0, 2, 3)]
    assert max(seconds) < 15
