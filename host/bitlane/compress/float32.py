"""Values as they are, 4 bytes each: averages that lose nothing, to compare others with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .averaging import Averaging
from .compressor import Layout, State, whole
from .groups import Groups
from .link import Link
from .plan import LinkModel
from .wire import CodecId


@dataclass(frozen=True)
class Float32:
    """A quantizer of `Averaging` that loses nothing: what was kept back is sent whole, and nothing is from then on."""

    def body_bytes(self, groups: Groups) -> int:
        return 4 * groups.count

    def encode(self, values: Tensor, groups: Groups, residual: Tensor | None, seed: int) -> Tensor:
        whole = values.clone() if residual is None else values + residual
        if residual is not None:
            residual.zero_()
        return whole.view(torch.uint8)

    def decode(self, body: Tensor, groups: Groups, out: Tensor, add: bool) -> None:
        values = body.view(torch.float32)
        if add:
            out += values
        else:
            out.copy_(values)


class Float32Reducer:
    """The reducer of `Uncompressed`; it keeps nothing."""

    def __init__(self, averaging: Averaging):
        self.averaging, self.bits = averaging, 0

    def average(self, vector: Tensor, step: int) -> None:
        self.averaging.average(vector, Float32(), step)

    def kept(self) -> Tensor | None:
        return None

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: State) -> None:
        """There is nothing to go on from."""

    def take_over(self, states: Sequence[State], kept: Tensor | None) -> None:
        """There is nothing to take over."""


@dataclass(frozen=True)
class Uncompressed:
    """No compression: float32 values, added in order of rank, so that every rank gets the same bytes."""

    codec: CodecId = field(default=CodecId.FLOAT, init=False)
    policy: None = field(default=None, init=False)

    def reducer(self, layout: Layout, link: Link, model: LinkModel, device: torch.device) -> Float32Reducer:
        return Float32Reducer(Averaging(Groups.of(whole(layout)), link, model, 0, False, device))
