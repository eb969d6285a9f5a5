"""What PyTorch has around DDP, with a compressor: it works, or one clear line refuses it."""

from __future__ import annotations

import pytest
from tests.helpers import attach_scenes, integration_scenes

from bitlane.compress.collectives.launch import launch

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def scenes():
    """Return the results of both ranks for each scene."""
    found = launch(integration_scenes.play, attach_scenes.RANKS, timeout=300)
    return {name: [rank[name] for rank in found] for name in found[0]}


def test_a_compiled_model_has_the_gradients_by_hand(scenes):
    """In both orders: DDP of a compiled model, and a compiled DDP, which dynamo cuts at the buckets."""
    assert scenes["compiled"] == [[([True] * 3, 3)] * 2] * 2


def test_compiled_autograd_is_refused(scenes):
    for text in scenes["compiled_autograd"]:
        assert text.startswith("DataError: DDPCompression is a hook of DistributedDataParallel without compiled autogr")


def test_sparse_embeddings_are_refused_and_can_be_left_out(scenes):
    """The error is raised on all ranks, without a wait, with several buckets too."""
    for texts, left_out in scenes["sparse_embedding"]:
        for text in texts:
            assert text.startswith("DataError: sparse gradients are not supported: create the embedding with sparse=Fa")
        assert left_out


def test_an_optimizer_with_sharded_states_changes_no_bit(scenes):
    assert scenes["zero_redundancy"] == [[True, True]] * 2


def test_a_mesh_dimension_is_a_group():
    assert launch(integration_scenes.meshes, 4, timeout=120) == [([0, 2], [True, True]), ([1, 3], [True, True])] * 2
