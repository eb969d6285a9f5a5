"""What a compressor is: settings that a user writes down, and the reducer that a rank makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import torch
from torch import Tensor

from bitlane.policies.protocol import BitPolicy

from .codecs.wire import CodecId
from .collectives.cost_model import AlphaBetaModel
from .collectives.link import Link

SavedState = Mapping[str, Any]


@dataclass(frozen=True)
class ParameterSpan:
    """A parameter's place in the vector of all gradients: values `begin` to `end`, the latter excluded."""

    begin: int
    shape: tuple[int, ...]

    @property
    def end(self) -> int:
        return self.begin + prod(self.shape)


Layout = Sequence[ParameterSpan]


class Reducer(Protocol):
    """A rank's side of a compressor: what it keeps from step to step, and the average of a step.

    Attributes
    ----------
    bits: bits a value of the next step; what a bit policy sets. 0 where a codec has no such thing.
    """

    bits: int

    def average(self, vector: Tensor, step: int) -> None:
        """Make `vector`, this rank's gradient float32 [n], the average that every rank applies: the same bytes on all.

        Every rank calls it for the same step. The vector is finite.
        """
        ...

    def residual(self) -> Tensor | None:
        """float32 [n]: what this rank keeps back for later, in units of its gradient; None where that means nothing.

        In every step, summed over ranks: gradients + kept before = ranks * average + kept after.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything that a step depends on and leaves behind, as tensors, numbers and text; copies."""
        ...

    def load_state_dict(self, state: SavedState) -> None:
        """Go on from what `state_dict` gave; DataError where it is not this compressor's, or of other shapes."""
        ...

    def reshard(self, states: Sequence[SavedState], kept: Tensor | None) -> None:
        """Go on from a run with another number of ranks, nothing kept back yet by this one.

        states: those of all its ranks, in order, for what does not depend on their number (a warm start, a threshold).
        kept: float32 [n], what `kept` has to give from now on; None where that means nothing.
        """
        ...


class Compressor(Protocol):
    """Settings, as a frozen dataclass whose repr says them all: ranks compare it.

    Attributes
    ----------
    codec: what the header of a step names.
    policy: chooses the reducer's bits before each step; None for a compressor without bits.
    """

    @property
    def codec(self) -> CodecId: ...

    @property
    def policy(self) -> BitPolicy | None: ...

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> Reducer:
        """A rank's reducer for a model with such parameters, nothing kept back yet."""
        ...


def vector_length(layout: Layout) -> int:
    """Values in the vector."""
    return layout[-1].end if layout else 0
