"""The state of sparse compressors: vectors as long as the gradient, in host memory.

Sparse codecs run on the host. A gradient on a GPU is copied to the host, and its average back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from ..codecs.select import Values
from ..collectives.residuals import add_residual, rounding_bound
from ..collectives.restore import restore, saved
from ..compressor import SavedState


@contextmanager
def host_array(vector: Tensor) -> Iterator[Values]:
    """Give a vector, float32 [n], on any device as a writable array; copy changes back at the end of the context."""
    values = vector.cpu().numpy()
    yield values
    if not vector.is_cpu:
        vector.copy_(torch.from_numpy(values))


class StateVectors:
    """Named vectors, `dtype` [count], initially zero.

    Parameters
    ----------
    count : int
        Values of each vector.
    device : torch.device
        The device of the gradients, to which `on_device` copies.
    *names : str
        Names of the vectors.
    dtype : torch.dtype, default: torch.float32
        The type of their values: float32 or bfloat16.
    """

    def __init__(self, count: int, device: torch.device, *names: str, dtype: torch.dtype = torch.float32):
        self.tensors, self.device = {name: torch.zeros(count, dtype=dtype) for name in names}, device

    def array(self, name: str) -> Values:
        """Return a vector of float32 without a copy."""
        values: Values = self.tensors[name].numpy()
        return values

    def accumulate(self, name: str, values: Values) -> Values:
        """Return the sum of a vector and values, float32 [count], in the memory of one of them; `keep` ends its use."""
        tensor = self.tensors[name]
        if tensor.dtype == torch.float32:
            tensor += torch.from_numpy(values)
            return self.array(name)
        add_residual(torch.from_numpy(values), tensor)
        return values

    def keep(self, name: str, accumulated: Values) -> None:
        """Set a vector to what `accumulate` returned, after changes."""
        tensor = self.tensors[name]
        if tensor.dtype != torch.float32:  # otherwise it is the vector itself
            tensor.copy_(torch.from_numpy(accumulated))

    def on_device(self, name: str) -> Tensor:
        """Return a copy in float32 on the device of the gradients."""
        return self.tensors[name].to(self.device, torch.float32, copy=True)

    def rounding(self, name: str) -> Tensor | None:
        """Return a bound on what rounding changed in each value, float32 [count]; None for vectors of float32."""
        tensor = self.tensors[name]
        return None if tensor.dtype == torch.float32 else rounding_bound(tensor).to(self.device)

    def state_dict(self, memory: SavedState | None = None) -> dict[str, Tensor]:
        """Return copies of the vectors, in the memory of earlier copies if it is given."""
        return saved(self.tensors, memory)

    def load_state_dict(self, state: SavedState) -> None:
        """Restore a state of `state_dict`; raise DataError if a vector is missing or has another length."""
        restore(self.tensors, state)

    def load_mean(self, states: Sequence[SavedState]) -> None:
        """Load the mean of the vectors of all old ranks, so that the mean over ranks is conserved."""
        self.load_state_dict({name: sum(state[name] for state in states) / len(states) for name in self.tensors})
