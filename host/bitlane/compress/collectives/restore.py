"""Save and restore tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from bitlane.errors import DataError


def saved(own: Mapping[str, Tensor], memory: Mapping[str, Any] | None = None) -> dict[str, Tensor]:
    """Return copies of tensors, in the memory of earlier copies if it is given."""
    return {name: copied(tensor, memory[name] if memory else None) for name, tensor in own.items()}


def copied(tensor: Tensor, memory: Tensor | None) -> Tensor:
    """Return a copy of a tensor, in this memory if it is given."""
    return tensor.clone() if memory is None else memory.copy_(tensor)


def restore(own: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Copy saved tensors into those of the same names; raise DataError if one is missing or has another shape."""
    for name, tensor in own.items():
        if name not in state:
            raise DataError(f"the saved state has no {name}; this compressor needs {tuple(tensor.shape)}")
        if state[name].shape != tensor.shape:
            actual, needed = tuple(state[name].shape), tuple(tensor.shape)
            raise DataError(f"{name} of the saved state has shape {actual}; this compressor needs {needed}")
    for name, tensor in own.items():
        tensor.copy_(state[name])
