"""After a rank is killed, all resume from the last checkpoint and end with the parameters of an uninterrupted run."""

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


@pytest.fixture(scope="module", params=[1 << 20, 300], ids=["at once", "overlap"])
def segment(request):
    """Values of a segment, at least: the models have 2,100."""
    return request.param


@pytest.fixture(scope="module")
def uninterrupted(segment, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    first_step, parameters = launch(kill_scenes.train, RANKS, folder, None, 0, "", segment, timeout=200)[0]
    assert first_step == 0
    return parameters


@pytest.mark.parametrize("moment", ["backward", "saving"])
def test_resumption_after_a_kill_is_bit_identical(moment, segment, uninterrupted, seed, tmp_path):
    rng = np.random.default_rng(seed)
    victim = int(rng.integers(RANKS))
    at = int(rng.integers(STEPS)) if moment == "backward" else 2 * EVERY - 1
    start = time.monotonic()
    with pytest.raises(BitlaneError, match=f"rank {victim} was ended by signal SIGKILL"):
        launch(kill_scenes.train, RANKS, tmp_path, victim, at, moment, segment, timeout=200)
    assert time.monotonic() - start < 100
    if moment == "backward":  # the other rank did not wait long
        name, seconds = (tmp_path / f"error-{1 - victim}.txt").read_text().split()
        assert name == "RankFailed" and float(seconds) < 20
    for first_step, parameters in launch(kill_scenes.train, RANKS, tmp_path, None, 0, "", segment, timeout=200):
        assert first_step == (at // EVERY * EVERY if moment == "backward" else EVERY)
        assert torch.equal(parameters, uninterrupted)
