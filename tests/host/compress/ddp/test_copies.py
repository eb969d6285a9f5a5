"""Models with a compression, and compressions, are copied, pickled, averaged and saved as any others."""

from __future__ import annotations

import pytest
from tests.helpers import copy_scenes

from bitlane.compress.collectives.launch import launch

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """Return the results of both ranks for each scene."""
    found = launch(copy_scenes.play, copy_scenes.RANKS, tmp_path_factory.mktemp("checkpoints"), timeout=300)
    return {name: [rank[name] for rank in found] for name in found[0]}


@pytest.mark.parametrize("way", copy_scenes.COPIES)
def test_a_copy_of_a_model_trains_uncompressed_and_says_so(scenes, way):
    for rank in scenes["copied_model"]:
        found = rank[way]
        quiet, texts = found.pop("warnings")
        assert quiet == 0 and len(texts) == 1
        assert texts[0].startswith("this model is a copy of one with compressed gradients")
        assert found == {"same parameters": True, "plain gradients": True, "opened": True, "steps": 2}


def test_a_copy_of_a_model_can_be_attached(scenes):
    assert scenes["copy_is_attached"] == [(True, 3)] * 2


def test_a_copy_of_a_model_has_no_residual(scenes):
    for plain, compressed in scenes["size_of_copies"]:
        assert compressed < plain + 2000


def test_a_copy_of_a_compression_has_its_state(scenes):
    for rank in scenes["copied_compression"]:
        assert len(rank) == 12
        for equal, steps, (no_state, no_hook) in rank:
            assert equal and steps == 5
            assert no_state == "DataError: there is no state before the first step"
            assert no_hook == (
                "AttributeError: a copy of a DDPCompression has no hook, because it has no connections to other ranks: "
                "create a new one, and load the state_dict() of this copy"
            )


def test_a_distributed_checkpoint_keeps_the_state_of_each_rank(scenes):
    assert scenes["checkpointed"] == [[True, True]] * 2


def test_copies_of_semi_synchronous_trainings_have_their_state(scenes):
    for rank in scenes["diloco"]:
        assert len(rank) == 4
        for equal, text in rank:
            assert equal and text.startswith(("AttributeError: a copy of a DiLoCo", "AttributeError: a copy of a Loc"))


def test_a_copy_of_the_compression_of_a_sharded_model_has_its_state(scenes):
    for equal, steps, text in scenes["fsdp"]:
        assert equal and steps == 1 and text.startswith("AttributeError: a copy of a FSDPCompression has no close")
