"""Lightning and Accelerate keep the state of each rank: a resumed training is identical to an uninterrupted one."""

from __future__ import annotations

import pytest
from tests.helpers import framework_scenes

from bitlane.compress.collectives.launch import launch

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def accelerate(folder):
    return launch(framework_scenes.accelerate, 2, folder, timeout=120)


@pytest.fixture(scope="module")
def lightning(folder):
    return launch(framework_scenes.lightning, 2, folder, timeout=120)


def test_a_training_of_lightning_is_resumed(lightning):
    assert lightning == [([(True, True)] * 3, {})] * 2


def test_a_training_of_accelerate_is_resumed(accelerate):
    for equal, [error] in accelerate:
        assert equal
        assert error.startswith("DataError: ") and "nowhere/bitlane_compression_0.pt does not" in error


def test_states_are_loaded_on_other_ranks(accelerate, lightning, folder):
    for rank, (states, error) in enumerate(launch(framework_scenes.of_other_ranks, 3, folder, timeout=120)):
        assert states == [(framework_scenes.SAVED_AT, rank, 3)] * 2
        assert error.startswith("BitlaneError: rank") and "when it was closed" in error
