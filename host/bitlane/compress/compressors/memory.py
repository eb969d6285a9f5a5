"""What a sparse compressor's reducer keeps from step to step: vectors as long as the gradient, in the host's memory.

Sparse codecs run on the host: a gradient on a GPU is copied there, and its average back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from ..codecs.select import Values
from ..collectives.restore import restore
from ..compressor import SavedState


@contextmanager
def host_array(vector: Tensor) -> Iterator[Values]:
    """A vector float32 [n] on any device as an array; what is written to it arrives in `vector`."""
    values = vector.cpu().numpy()
    yield values
    if not vector.is_cpu:
        vector.copy_(torch.from_numpy(values))


class StateVectors:
    """Named vectors float32 [count], zeros at first.

    Parameters
    ----------
    device: of the gradients, and so of what `on_device` gives.
    """

    def __init__(self, count: int, device: torch.device, *names: str):
        self.tensors, self.device = {name: torch.zeros(count) for name in names}, device

    def array(self, name: str) -> Values:
        """The vector itself."""
        values: Values = self.tensors[name].numpy()
        return values

    def on_device(self, name: str) -> Tensor:
        """A copy beside the gradients."""
        return self.tensors[name].to(self.device, copy=True)

    def state_dict(self) -> dict[str, Tensor]:
        """Copies."""
        return {name: tensor.clone() for name, tensor in self.tensors.items()}

    def load_state_dict(self, state: SavedState) -> None:
        """Go on from what `state_dict` gave; DataError where a vector is missing, or of another length."""
        restore(self.tensors, state)

    def load_mean(self, states: Sequence[SavedState]) -> None:
        """Each rank of a new number takes the mean of all old ranks' vectors: then sums over ranks, by ranks, stay."""
        self.load_state_dict({name: sum(state[name] for state in states) / len(states) for name in self.tensors})
