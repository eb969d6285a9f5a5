"""The state of sparse compressors: vectors as long as the gradient, on its device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..collectives.residuals import add_residual, rounding_bound
from ..collectives.restore import restore, saved
from ..compressor import SavedState


class StateVectors:
    """Named vectors, `dtype` [count], initially zero.

    Parameters
    ----------
    count : int
        Values of each vector.
    device : torch.device
        The device of the gradients.
    *names : str
        Names of the vectors.
    dtype : torch.dtype, default: torch.float32
        The type of their values: float32 or bfloat16.
    decay : float, default: 1.0
        Factor of a vector that is kept.
    """

    def __init__(
        self, count: int, device: torch.device, *names: str, dtype: torch.dtype = torch.float32, decay: float = 1.0
    ):
        self.decay = decay
        self.tensors = {name: torch.zeros(count, dtype=dtype, device=device) for name in names}

    def accumulate(self, name: str, values: Tensor) -> Tensor:
        """Return the sum of a vector and values, float32 [count], in the memory of one of them; `keep` ends its use."""
        tensor = self.tensors[name]
        if tensor.dtype == torch.float32:
            return tensor.add_(values)
        add_residual(values, tensor)
        return values

    def keep(self, name: str, accumulated: Tensor) -> None:
        """Set a vector to what `accumulate` returned, after changes, times the decay."""
        tensor = self.tensors[name]
        if self.decay != 1:
            accumulated.mul_(self.decay)
        if tensor.dtype != torch.float32:  # otherwise it is the vector itself
            tensor.copy_(accumulated)

    def copy(self, name: str) -> Tensor:
        """Return a copy in float32."""
        return self.tensors[name].to(torch.float32, copy=True)

    def rounding(self, name: str) -> Tensor | None:
        """Return a bound on what rounding and decay changed in each value, float32 [count]; None if nothing."""
        tensor = self.tensors[name]
        bound = None if tensor.dtype == torch.float32 else rounding_bound(tensor)
        if self.decay == 1:
            return bound
        decayed = tensor.float().abs() if bound is None else tensor.float().abs().add_(bound)
        decayed *= 1 / self.decay - 1
        return decayed if bound is None else decayed.add_(bound)

    def state_dict(self, memory: SavedState | None = None) -> dict[str, Tensor]:
        """Return copies of the vectors, in the memory of earlier copies if it is given."""
        return saved(self.tensors, memory)

    def load_state_dict(self, state: SavedState) -> None:
        """Restore a state of `state_dict`; raise DataError if a vector is missing or has another length."""
        restore(self.tensors, state)

    def load_mean(self, states: Sequence[SavedState]) -> None:
        """Load the mean of the vectors of all old ranks, so that the mean over ranks is conserved."""
        self.load_state_dict({name: sum(state[name] for state in states) / len(states) for name in self.tensors})
