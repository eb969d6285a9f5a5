"""Saved tensors, copied back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from bitlane.errors import DataError


def restore(own: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Copy saved tensors into those of the same names; DataError where one is missing, or of another shape."""
    for name, tensor in own.items():
        if name not in state or state[name].shape != tensor.shape:
            there = tuple(state[name].shape) if name in state else "none"
            raise DataError(f"{name} of the saved state is {there}, and {tuple(tensor.shape)} is needed")
    for name, tensor in own.items():
        tensor.copy_(state[name])
