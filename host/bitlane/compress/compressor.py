"""The protocols of gradient compression: a compressor (settings) and its reducer (the state of one rank)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Protocol, TypeGuard, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bitlane.policies.protocol import BitPolicy, Sample
from bitlane.support.hashing import derive_seed

from .codecs.wire import CodecId
from .collectives.cost_model import AlphaBetaModel
from .collectives.link import Link

SavedState = Mapping[str, Any]
Sampler = Callable[[Tensor], Sample]
"""Takes the average of all ranks' gradients, float32 [n], and completes the sample of this rank's gradient."""


@dataclass(frozen=True)
class ParameterSpan:
    """The span of a parameter in the gradient vector: values `begin` to `end`, excluding `end`.

    Attributes
    ----------
    begin : int
        Index of the first value.
    shape : tuple of int
        Shape of the parameter.
    """

    begin: int
    shape: tuple[int, ...]

    @property
    def end(self) -> int:
        """Index after the last value."""
        return self.begin + prod(self.shape)

    def view(self, vector: Tensor) -> Tensor:
        """Return a view of the parameter's values in a gradient vector [n], in its shape."""
        return vector[self.begin : self.end].view(self.shape)


Layout = Sequence[ParameterSpan]


class Reducer(Protocol):
    """The state of a compressor on one rank, and its average of a step.

    Attributes
    ----------
    bits : int
        Bits per value in the next step; set by the bit policy. 0 if the codec has no bit width.
    """

    bits: int

    def average(self, vector: Tensor, step: int) -> None:
        """Average the gradients of all ranks, in place. All ranks call it in the same step.

        Parameters
        ----------
        vector : Tensor, float32 [n]
            The finite gradient of this rank. On return, the average: identical bytes on all ranks.
        step : int
            Number of the step, from 0.
        """
        ...

    def residual(self) -> Tensor | None:
        """Return the residual of this rank, float32 [n], in units of its gradient; None without error feedback.

        In every step, summed over ranks: gradients + residuals before = ranks * average + residuals after.
        """
        ...

    def residual_rounding(self) -> Tensor | None:
        """Return a bound on what rounding and decay of the residual lost in the last step, float32 [n], as a gradient.

        None without a residual, or with one in float32 and no decay. The sides of the equation of `residual` differ
        by at most this bound.
        """
        ...

    def state_dict(self, memory: SavedState | None = None) -> dict[str, Any]:
        """Return a copy of the state that the next step depends on, as tensors, numbers and text.

        Parameters
        ----------
        memory : SavedState, optional
            An earlier copy of this reducer's state, whose tensors are overwritten and used again.
        """
        ...

    def load_state_dict(self, state: SavedState) -> None:
        """Restore a state of `state_dict`; raise DataError if it is from another compressor or has other shapes."""
        ...

    def reshard(self, states: Sequence[SavedState], residual: Tensor | None) -> None:
        """Continue a run that had another number of ranks. This reducer has made no step yet.

        Parameters
        ----------
        states : sequence of SavedState
            The states of all old ranks, in order. They hold what does not depend on the number of ranks, such as a
            warm start or a threshold.
        residual : Tensor, float32 [n], or None
            The new residual of this rank; None without error feedback.
        """
        ...


class GroupReducer(Reducer, Protocol):
    """A reducer whose groups of values can have different numbers of bits.

    Attributes
    ----------
    widths : uint8 [group_count], or None
        Bits per value of each group in the next step; set by the bit policy. None: all have `bits`.
    """

    widths: NDArray[np.uint8] | None

    @property
    def group_count(self) -> int:
        """Number of groups."""
        ...

    def sample(self, vector: Tensor, choices: Sequence[int]) -> Sampler:
        """Begin a sample of this rank's gradient, float32 [n], before the average, for these bits."""
        ...


def has_widths(reducer: Reducer) -> TypeGuard[GroupReducer]:
    """Return whether a reducer is a `GroupReducer`."""
    return hasattr(reducer, "widths")


class Compressor(Protocol):
    """The settings of a compressor: a frozen dataclass. Ranks compare its repr, so it includes every setting.

    One that selects from the whole gradient has the class attribute `whole_gradient`, True.
    """

    @property
    def codec(self) -> CodecId:
        """The codec in the header of each step."""
        ...

    @property
    def policy(self) -> BitPolicy | None:
        """The policy that sets the bits of the reducer before each step; None if the codec has no bit width."""
        ...

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> Reducer:
        """Return a new reducer for one rank.

        Parameters
        ----------
        layout : Layout
            The parameters of the model.
        link : Link
            The connection to the other ranks.
        model : AlphaBetaModel
            The cost model that chooses the collective.
        device : torch.device
            The device of the gradients.
        """
        ...


CompressorT = TypeVar("CompressorT", bound=Compressor)


def with_own_seed(compressor: CompressorT, index: int) -> CompressorT:
    """Return the settings for one segment, group or fragment of a gradient, with a seed of its own; index 0 keeps it.

    Otherwise values at the same index of different segments would get the same random words.
    """
    if index == 0 or not hasattr(compressor, "seed"):
        return compressor
    return replace(compressor, seed=derive_seed(compressor.seed, index))  # type: ignore[type-var]


def layout_of_shapes(shapes: Iterable[Sequence[int]]) -> Layout:
    """Return the spans of parameters with these shapes, one after the other."""
    layout: list[ParameterSpan] = []
    for shape in shapes:
        layout.append(ParameterSpan(vector_length(layout), tuple(shape)))
    return layout


def vector_length(layout: Layout) -> int:
    """Return the number of values in the gradient vector."""
    return layout[-1].end if layout else 0
