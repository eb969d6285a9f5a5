"""Parameters of any memory format: averages and states are those of contiguous parameters, element by element."""

from __future__ import annotations

import pytest
from tests.helpers import memory_scenes

from bitlane.compress.collectives.launch import launch

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("segment", [None, 20], ids=["at once", "overlap"])
def test_averages_and_states_do_not_depend_on_the_memory_format(segment, seed):
    for rank in launch(memory_scenes.any_strides, 2, seed, segment, timeout=120):
        assert len(rank) == 5
        for equal, formats in rank:
            assert equal, formats


def test_a_state_of_an_earlier_version_is_refused_or_warned_of():
    for (error, [warning]), (refusal, silent) in launch(memory_scenes.earlier_state, 2, timeout=120):
        assert error == "nothing"
        assert warning.startswith(
            "the saved state is of an earlier version, which stored residuals in the order of mem"
        )
        assert not silent
        assert refusal.startswith("DataError: the saved state is of an earlier version, which stored residuals in the ")
        assert "a parameter of shape (3, 2, 2, 2) is not contiguous: start without the state" in refusal
