"""A gradient in segments of adjacent parameters, each with its own reducer, so that a step can begin with the first.

The segments follow from the layout, and not from DDP's buckets. So the size of the buckets does not change the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bitlane.policies.protocol import BitPolicy, Sample, joined_sample

from .codecs.wire import CodecId
from .collectives.cost_model import AlphaBetaModel
from .collectives.link import Link
from .compressor import (
    Compressor,
    GroupReducer,
    Layout,
    Reducer,
    Sampler,
    SavedState,
    has_widths,
    layout_of_shapes,
    with_own_seed,
)
from .compressors.shares import SharedSelection, Shares


@dataclass(frozen=True)
class GradientSegment:
    """Adjacent parameters: values `begin` to `end` of the gradient vector, excluding `end`.

    Attributes
    ----------
    begin, end : int
    layout : Layout
        Its parameters; the first one begins at 0.
    """

    begin: int
    end: int
    layout: Layout


def split_layout(layout: Layout, least: int) -> list[GradientSegment]:
    """Cut a layout after the first parameter with which a segment has `least` values; the last one may have fewer."""
    segments: list[GradientSegment] = []
    begin, shapes = 0, []
    for number, span in enumerate(layout):
        shapes.append(span.shape)
        if span.end - begin >= least or number == len(layout) - 1:
            segments.append(GradientSegment(begin, span.end, layout_of_shapes(shapes)))
            begin, shapes = span.end, []
    return segments


class SegmentedReducer:
    """The reducers of all segments, as one `Reducer`.

    In its state, vectors with a value for each value of the gradient are joined; all else is a list, with an item for
    each segment.

    Parameters
    ----------
    segments : sequence of GradientSegment
    reducers : sequence of Reducer
        One for each segment.
    """

    def __init__(self, segments: Sequence[GradientSegment], reducers: Sequence[Reducer]):
        self.segments, self.reducers = segments, reducers
        selections = [getattr(reducer, "selection", None) for reducer in reducers]
        shared = [each for each in selections if isinstance(each, SharedSelection)]
        self._shares = Shares(shared) if len(shared) > 1 else None

    @property
    def bits(self) -> int:
        """Bits per value in the next step; the same in all segments."""
        return self.reducers[0].bits if self.reducers else 0

    @bits.setter
    def bits(self, bits: int) -> None:
        for each in self.reducers:
            each.bits = bits

    @property
    def widths(self) -> NDArray[np.uint8] | None:
        """Bits per value of each group of all segments, uint8 [groups], instead of `bits`; see `GroupReducer`."""
        widths = [reducer.widths for reducer in self._group_reducers() if reducer.widths is not None]
        return np.concatenate(widths) if widths else None

    @widths.setter
    def widths(self, widths: NDArray[np.uint8] | None) -> None:
        ends = np.cumsum([reducer.group_count for reducer in self._group_reducers()])
        of_reducers = [None] * len(ends) if widths is None else np.split(widths, ends[:-1])
        for reducer, own in zip(self._group_reducers(), of_reducers, strict=True):
            reducer.widths = own

    @property
    def group_count(self) -> int:
        """Number of groups of all segments."""
        return sum(reducer.group_count for reducer in self._group_reducers())

    def _group_reducers(self) -> list[GroupReducer]:
        return [each for each in self.reducers if has_widths(each)]

    def average(self, vector: Tensor, step: int) -> None:
        for segment, reducer in zip(self.segments, self.reducers, strict=True):
            reducer.average(vector[segment.begin : segment.end], step)
        self.end_step()

    def end_step(self) -> None:
        """Update the shares of a sparse compressor, after all segments have been averaged."""
        if self._shares is not None:
            self._shares.follow()

    def sample(self, vector: Tensor, choices: Sequence[int]) -> Sampler:
        """Begin a sample of each segment, as in `GroupReducer`."""
        pairs = list(zip(self.segments, self._group_reducers(), strict=True))
        samplers = [reducer.sample(vector[segment.begin : segment.end], choices) for segment, reducer in pairs]

        def complete(average: Tensor) -> Sample:
            averages = [average[segment.begin : segment.end] for segment, _ in pairs]
            return joined_sample([sampler(each) for sampler, each in zip(samplers, averages, strict=True)])

        return complete

    def residual(self) -> Tensor | None:
        residuals = [each for reducer in self.reducers if (each := reducer.residual()) is not None]
        return torch.cat(residuals) if residuals else None

    def residual_rounding(self) -> Tensor | None:
        bounds = [each for reducer in self.reducers if (each := reducer.residual_rounding()) is not None]
        return torch.cat(bounds) if bounds else None

    def state_dict(self, memory: SavedState | None = None) -> dict[str, Any]:
        states = [each.state_dict() for each in self.reducers]
        joined = {name: self._joined([state[name] for state in states]) for name in (states[0] if states else ())}
        return joined if self._shares is None else {**joined, "shares": self._shares.saved()}

    def _joined(self, values: list[Any]) -> Any:
        pairs = zip(self.segments, values, strict=True)
        have_lengths = (isinstance(each, Tensor) and each.shape == (own.end - own.begin,) for own, each in pairs)
        return torch.cat(values) if all(have_lengths) else values

    def load_state_dict(self, state: SavedState) -> None:
        for number, reducer in enumerate(self.reducers):
            reducer.load_state_dict(self._segment_state(state, number))
        self._restore_shares([state])

    def _restore_shares(self, states: Sequence[SavedState]) -> None:
        if self._shares is not None:
            self._shares.restore([state["shares"] for state in states if "shares" in state])

    def _segment_state(self, state: SavedState, number: int) -> SavedState:
        """Return the state of a segment. A list for other segments ends with items that count for those behind it."""
        segment = self.segments[number]
        return {
            name: each[segment.begin : segment.end] if isinstance(each, Tensor) else each[min(number, len(each) - 1)]
            for name, each in state.items()
        }

    def reshard(self, states: Sequence[SavedState], residual: Tensor | None) -> None:
        for number, (segment, reducer) in enumerate(zip(self.segments, self.reducers, strict=True)):
            own = None if residual is None else residual[segment.begin : segment.end]
            reducer.reshard([self._segment_state(state, number) for state in states], own)
        self._restore_shares(states)


@dataclass(frozen=True)
class Segmented:
    """A compressor that averages each segment of the gradient for itself.

    Parameters
    ----------
    compressor : Compressor
        The settings of all segments. Each has its own seed.
    least : int
        Values of a segment, at least.
    """

    compressor: Compressor
    least: int

    @property
    def codec(self) -> CodecId:
        """The codec of the compressor."""
        return self.compressor.codec

    @property
    def policy(self) -> BitPolicy | None:
        """The policy of the compressor; it sets the bits of all segments."""
        return self.compressor.policy

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> SegmentedReducer:
        """Return a new reducer for one rank, as in `Compressor.reducer`."""
        segments = split_layout(layout, self.least)
        compressors = [with_own_seed(self.compressor, number) for number in range(len(segments))]
        pairs = zip(segments, compressors, strict=True)
        return SegmentedReducer(
            segments, [each.reducer(segment.layout, link, model, device) for segment, each in pairs]
        )
