"""What reducers keep: copies go out, and nothing is taken in of a state that does not fit."""

from __future__ import annotations

import pytest
import torch

from bitlane.compress.memory import Memory
from bitlane.errors import DataError


def test_a_state_is_a_copy():
    memory = Memory(3, "residual")
    state = memory.state_dict()
    memory["residual"].add_(1)
    assert state["residual"].tolist() == [0, 0, 0]
    memory.load_state_dict(state)
    memory["residual"].add_(1)
    assert state["residual"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("state", [{}, {"a": torch.ones(2)}, {"a": torch.ones(2), "b": torch.ones(3)}])
def test_all_of_a_state_or_nothing(state):
    memory = Memory(2, "a", "b")
    with pytest.raises(DataError, match="of the saved state is"):
        memory.load_state_dict(state)
    assert memory["a"].tolist() == memory["b"].tolist() == [0, 0]


def test_the_mean_of_ranks():
    memory = Memory(2, "a")
    memory.take_mean([{"a": torch.tensor([1.0, 2.0])}, {"a": torch.tensor([3.0, -2.0])}])
    assert memory["a"].tolist() == [2, 0]
