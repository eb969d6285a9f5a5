"""A rank is killed, all go on from the last checkpoint, and end with the parameters of a run that never stopped."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from tests.helpers import kill_scenes
from tests.helpers.kill_scenes import EVERY, STEPS

from bitlane.compress.collectives.launch import launch
from bitlane.errors import BitlaneError

pytestmark = pytest.mark.torch

RANKS = 2


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory):
    begun, parameters = launch(kill_scenes.train, RANKS, tmp_path_factory.mktemp("whole"), None, 0, "", timeout=200)[0]
    assert begun == 0
    return parameters


@pytest.mark.parametrize("moment", ["backward", "saving"])
def test_killed_and_resumed_to_the_bit(moment, never_stopped, seed, tmp_path):
    rng = np.random.default_rng(seed)
    victim = int(rng.integers(RANKS))
    at = int(rng.integers(STEPS)) if moment == "backward" else 2 * EVERY - 1
    began = time.monotonic()
    with pytest.raises(BitlaneError, match=f"rank {victim} was ended by signal SIGKILL"):
        launch(kill_scenes.train, RANKS, tmp_path, victim, at, moment, timeout=200)
    assert time.monotonic() - began < 100
    if moment == "backward":  # the other rank did not wait long
        name, seconds = (tmp_path / f"error-{1 - victim}.txt").read_text().split()
        assert name == "RankFailed" and float(seconds) < 20
    for begun, parameters in launch(kill_scenes.train, RANKS, tmp_path, None, 0, "", timeout=200):
        assert begun == (at // EVERY * EVERY if moment == "backward" else EVERY)
        assert torch.equal(parameters, never_stopped)
