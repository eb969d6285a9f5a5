"""The state of sparse compressors: vectors as long as the gradient, in host memory.

Sparse codecs run on the host. A gradient on a GPU is copied to the host, and its average back.
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
    """Give a vector, float32 [n], on any device as a writable array; copy changes back at the end of the context."""
    values = vector.cpu().numpy()
    yield values
    if not vector.is_cpu:
        vector.copy_(torch.from_numpy(values))


class StateVectors:
    """Named vectors, float32 [count], initially zero.

    Parameters
    ----------
    count : int
        Values of each vector.
    device : torch.device
        The device of the gradients, to which `on_device` copies.
    *names : str
        Names of the vectors.
    """

    def __init__(self, count: int, device: torch.device, *names: str):
        self.tensors, self.device = {name: torch.zeros(count) for name in names}, device

    def array(self, name: str) -> Values:
        """Return the vector without a copy."""
        values: Values = self.tensors[name].numpy()
        return values

    def on_device(self, name: str) -> Tensor:
        """Return a copy on the device of the gradients."""
        return self.tensors[name].to(self.device, copy=True)

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of the vectors."""
        return {name: tensor.clone() for name, tensor in self.tensors.items()}

    def load_state_dict(self, state: SavedState) -> None:
        """Restore a state of `state_dict`; raise DataError if a vector is missing or has another length."""
        restore(self.tensors, state)

    def load_mean(self, states: Sequence[SavedState]) -> None:
        """Load the mean of the vectors of all old ranks, so that the mean over ranks is conserved."""
        self.load_state_dict({name: sum(state[name] for state in states) / len(states) for name in self.tensors})
