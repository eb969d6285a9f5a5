"""The state of reducers: saved states are copies, and unsuitable states are rejected without a change."""

from __future__ import annotations

import re

import pytest
import torch

from bitlane.compress.compressors.memory import StateVectors
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")


def test_copy_returns_a_copy():
    memory = StateVectors(2, CPU, "a")
    found = memory.copy("a")
    memory.tensors["a"][0] = 1
    assert found.tolist() == [0, 0] and memory.copy("a").tolist() == [1, 0]


def test_a_state_is_a_copy():
    memory = StateVectors(3, CPU, "residual")
    state = memory.state_dict()
    memory.tensors["residual"].add_(1)
    assert state["residual"].tolist() == [0, 0, 0]
    memory.load_state_dict(state)
    memory.tensors["residual"].add_(1)
    assert state["residual"].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "the saved state has no a; this compressor needs (2,)"),
        ({"a": torch.ones(2)}, "the saved state has no b; this compressor needs (2,)"),
        ({"a": torch.ones(2), "b": torch.ones(3)}, "b of the saved state has shape (3,); this compressor needs (2,)"),
    ],
)
def test_a_rejected_state_changes_nothing(state, message):
    memory = StateVectors(2, CPU, "a", "b")
    with pytest.raises(DataError, match=re.escape(message)):
        memory.load_state_dict(state)
    assert memory.copy("a").tolist() == memory.copy("b").tolist() == [0, 0]


def test_load_mean():
    memory = StateVectors(2, CPU, "a")
    memory.load_mean([{"a": torch.tensor([1.0, 2.0])}, {"a": torch.tensor([3.0, -2.0])}])
    assert memory.copy("a").tolist() == [2, 0]
