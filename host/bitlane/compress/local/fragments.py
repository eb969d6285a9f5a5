"""The parameters of a module, split into fragments of adjacent parameters.

Each fragment is averaged by itself. Fragments have about equal numbers of values, so that the rounds of a training send
about equal numbers of bytes. A parameter is never cut, since low-rank compressors need whole matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from bitlane.errors import DataError

from ..compressor import Layout, layout_of_shapes, vector_length
from ..ddp.buckets import TYPE_NAMES, TYPES


@dataclass(frozen=True, eq=False)
class Fragment:
    """Adjacent parameters of a module, and their spans in a flat vector.

    Attributes
    ----------
    parameters : tuple of Tensor
        The parameters, in order of registration.
    layout : Layout
        The span of each parameter.
    """

    parameters: tuple[Tensor, ...]
    layout: Layout

    @classmethod
    def of(cls, parameters: Sequence[Tensor]) -> Fragment:
        """Return the fragment of these parameters."""
        return cls(tuple(parameters), layout_of_shapes(parameter.shape for parameter in parameters))

    @property
    def count(self) -> int:
        """Number of values."""
        return vector_length(self.layout)

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return self.parameters[0].device

    @property
    def dtype(self) -> torch.dtype:
        """The type of a vector that holds all values: float64 if a parameter has it, otherwise float32."""
        return torch.float64 if any(each.dtype == torch.float64 for each in self.parameters) else torch.float32

    def views(self, vector: Tensor) -> list[Tensor]:
        """Return the values of each parameter, in its shape, in a vector [count]; without a copy."""
        return [span.view(vector) for span in self.layout]

    def vector(self) -> Tensor:
        """Return a copy of the parameters, `dtype` [count]."""
        vector = torch.empty(self.count, dtype=self.dtype, device=self.device)
        with torch.no_grad():
            for view, parameter in zip(self.views(vector), self.parameters, strict=True):
                view.copy_(parameter)
        return vector

    def assign(self, vector: Tensor) -> None:
        """Set the parameters to a vector, `dtype` [count], each rounded to its type."""
        with torch.no_grad():
            for view, parameter in zip(self.views(vector), self.parameters, strict=True):
                parameter.copy_(view)

    def rounded(self, vector: Tensor) -> Tensor:
        """Return a copy of a vector, `dtype` [count], with the values that `assign` would give the parameters."""
        result = vector.detach().clone()
        for view, parameter in zip(self.views(result), self.parameters, strict=True):
            if parameter.dtype != self.dtype:
                view.copy_(view.to(parameter.dtype))
        return result


def trained_parameters(module: nn.Module) -> dict[str, Tensor]:
    """Return the parameters of a module that have gradients, by name, in order of registration; tied ones once.

    Raises
    ------
    DataError
        The module has no such parameter; a type is not one of `TYPES`; they are on several devices.
    """
    named: dict[str, Tensor] = {name: each for name, each in module.named_parameters() if each.requires_grad}
    if not named:
        raise DataError(
            f"{type(module).__name__} has no parameter with requires_grad=True: there is nothing to average"
        )
    device = next(iter(named.values())).device
    for name, each in named.items():
        if each.dtype not in TYPES:
            raise DataError(
                f"{name} has the type {each.dtype}: convert it to {TYPE_NAMES}, or freeze it with requires_grad_(False)"
            )
        if each.device != device:
            raise DataError(f"{name} is on {each.device}, others are on {device}: move the model to one device")
    return named


def split_parameters(module: nn.Module, fragments: int) -> list[Fragment]:
    """Split the parameters that have gradients into fragments of adjacent parameters.

    A fragment ends at the parameter whose end is nearest to an equal share of the values. So no fragment exceeds an
    equal share by more than the values of the largest parameter.

    Parameters
    ----------
    module : torch.nn.Module
        The model.
    fragments : int
        Number of fragments; at most the number of parameters.

    Returns
    -------
    list of Fragment
        The fragments, in order of registration; each has a parameter.

    Raises
    ------
    DataError
        As `trained_parameters`; or if there are more fragments than parameters.

    Examples
    --------
    >>> from torch import nn
    >>> layers = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    >>> [fragment.count for fragment in split_parameters(layers, 2)]
    [72, 72]
    """
    parameters = list(trained_parameters(module).values())
    if not 1 <= fragments <= len(parameters):
        raise DataError(f"fragments must be from 1 to {len(parameters)}, the number of parameters; got {fragments}")
    ends = [span.end for span in Fragment.of(parameters).layout]
    cuts = [0]
    for number in range(1, fragments):
        possible = range(cuts[-1] + 1, len(parameters) - (fragments - number) + 1)
        cuts.append(min(possible, key=_distance_to(ends, ends[-1] * number / fragments)))
    cuts.append(len(parameters))
    return [Fragment.of(parameters[begin:end]) for begin, end in pairwise(cuts)]


def _distance_to(ends: Sequence[int], wanted: float) -> Callable[[int], float]:
    return lambda cut: abs(ends[cut - 1] - wanted)
