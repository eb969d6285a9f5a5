"""`attach(ddp, "auto")` under DDP, in real processes on a slow link."""

from __future__ import annotations

import pytest
from tests.helpers import auto_scenes
from tests.helpers.auto_scenes import FIRST, STEPS

from bitlane.compress.collectives.launch import launch

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def scenes():
    """Return the results of both ranks for each scene."""
    found = launch(auto_scenes.play, auto_scenes.RANKS, 1000, timeout=120)
    return {name: [rank[name] for rank in found] for name in found[0]}


@pytest.mark.parametrize("name", ["at once", "overlap"])
def test_all_ranks_choose_fewer_bits_and_get_equal_gradients(scenes, name):
    first, other = scenes[name]
    bits, _, text, overlaps = first
    assert first == other and overlaps == (name == "overlap")
    assert bits[:FIRST] == [16] * FIRST and bits[FIRST:] == [bits[-1]] * (STEPS - FIRST) and 3 <= bits[-1] <= 8
    assert text.startswith(f"QSGD({bits[-1]}) from step {FIRST} on; time of a step, error over noise: QSGD(2) ")


def test_a_copy_has_the_state_and_a_resumed_training_goes_on(scenes):
    for bits, equal in scenes["resumed"]:
        assert len(bits) == 1 and 3 <= bits[0] <= 8 and equal


def test_a_step_that_is_not_finite_is_not_measured(scenes):
    first, other = scenes["infinite"]
    bits, _, uncompressed, step = first
    assert first == other and uncompressed == 1
    assert bits[FIRST] == 16 > bits[FIRST + 1] and step == FIRST
