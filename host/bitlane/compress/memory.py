"""What a sparse compressor's reducer keeps from step to step: vectors as long as the gradient."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import DataError
from .compressor import State


class Memory:
    """Named vectors float32 [count], zeros at first.

    Attributes
    ----------
    tensors: by name.
    """

    def __init__(self, count: int, *names: str):
        self.tensors = {name: torch.zeros(count) for name in names}

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def state_dict(self) -> dict[str, Tensor]:
        """Copies."""
        return {name: tensor.clone() for name, tensor in self.tensors.items()}

    def load_state_dict(self, state: State) -> None:
        """Go on from what `state_dict` gave; DataError where a vector is missing, or of another length."""
        for name, own in self.tensors.items():
            if name not in state or state[name].shape != own.shape:
                there = tuple(state[name].shape) if name in state else "none"
                raise DataError(f"{name} of the saved state is {there}, and {tuple(own.shape)} is needed")
        for name, own in self.tensors.items():
            own.copy_(state[name])

    def take_mean(self, states: Sequence[State]) -> None:
        """Each rank of a new number takes the mean of all old ranks' vectors: then sums over ranks, by ranks, stay."""
        self.load_state_dict({name: sum(state[name] for state in states) / len(states) for name in self.tensors})
