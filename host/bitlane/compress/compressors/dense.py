"""Compressors that code every value by itself: QSGD, TernGrad, EFSign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from math import inf
from typing import Any

import torch
from torch import Tensor

from bitlane.errors import DataError
from bitlane.policies.protocol import BitPolicy, FixedBits
from bitlane.support.optional import require_extra

from ..codecs import linear, sign
from ..codecs.groups import Groups
from ..codecs.wire import CodecId
from ..collectives.averaging import Averaging, Quantizer
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..compressor import Layout, SavedState, vector_length

TERNARY = 2  # bits of the linear codec whose levels are -1, 0 and 1


@dataclass(frozen=True)
class LinearQuantizer:
    """Evenly spaced levels, as a quantizer of `Averaging`."""

    bits: int
    stochastic: bool

    def body_bytes(self, groups: Groups) -> int:
        return linear.body_bytes(groups, self.bits)

    def encode(self, values: Tensor, groups: Groups, residual: Tensor | None, seed: int) -> Tensor:
        drawn = seed if self.stochastic else None
        if values.is_cuda:
            return _gpu().encode(values, groups, self.bits, residual, drawn)
        kept = None if residual is None else residual.numpy()
        return torch.from_numpy(linear.encode(values.numpy(), groups, self.bits, kept, drawn))

    def decode(self, body: Tensor, groups: Groups, out: Tensor, add: bool) -> None:
        if out.is_cuda:
            _gpu().decode(body.to(out.device), groups, self.bits, out, add)
        else:
            linear.decode(body.numpy(), groups, self.bits, out.numpy(), add)


@dataclass(frozen=True)
class SignQuantizer:
    """Scaled signs, as a quantizer of `Averaging`."""

    def body_bytes(self, groups: Groups) -> int:
        return sign.body_bytes(groups)

    def encode(self, values: Tensor, groups: Groups, residual: Tensor | None, seed: int) -> Tensor:
        if values.is_cuda:
            return _gpu().encode(values, groups, 1, residual, None)
        kept = None if residual is None else residual.numpy()
        return torch.from_numpy(sign.encode(values.numpy(), groups, kept))

    def decode(self, body: Tensor, groups: Groups, out: Tensor, add: bool) -> None:
        if out.is_cuda:
            _gpu().decode(body.to(out.device), groups, 1, out, add)
        else:
            sign.decode(body.numpy(), groups, out.numpy(), add)


def _gpu() -> Any:
    require_extra("triton", "compression on a GPU", "'bitlane[torch,gpu]'")
    return import_module("..codecs.gpu.codes", __package__)


class DenseReducer:
    """The reducer of the compressors of this file."""

    def __init__(self, averaging: Averaging, stochastic: bool, bits: int):
        self.averaging, self.stochastic, self.bits = averaging, stochastic, bits

    def average(self, vector: Tensor, step: int) -> None:
        quantizer: Quantizer = SignQuantizer() if self.bits == 1 else LinearQuantizer(self.bits, self.stochastic)
        self.averaging.average(vector, quantizer, step)

    def residual(self) -> Tensor | None:
        return None if self.averaging.residual is None else self.averaging.combined_residual()

    def state_dict(self) -> dict[str, Any]:
        return self.averaging.state_dict()

    def load_state_dict(self, state: SavedState) -> None:
        self.averaging.load_state_dict(state)

    def reshard(self, states: Sequence[SavedState], kept: Tensor | None) -> None:
        if kept is not None:
            self.averaging.reshard(kept)


@dataclass(frozen=True)
class QSGD:
    """Evenly spaced levels in groups of 512 values (Alistarh et al., 2017, with the maximum for the norm).

    Parameters
    ----------
    bits: a value, 2 to 8, or a policy that chooses them.
    error_feedback: keep what the codes do not say, and add it the next time. Values are then rounded to the nearest
        level; without it at random, without bias.
    seed: of random rounding.
    """

    bits: int | BitPolicy = 8
    error_feedback: bool = False
    seed: int = 0
    codec: CodecId = field(default=CodecId.LINEAR, init=False)

    def __post_init__(self) -> None:
        if not set(self.policy.choices) <= set(linear.BITS):
            raise DataError(f"bits={self.bits}: QSGD has 2 to 8; EFSign has 1")

    @property
    def policy(self) -> BitPolicy:
        return FixedBits(self.bits) if isinstance(self.bits, int) else self.bits

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> DenseReducer:
        groups = Groups.of(vector_length(layout))
        averaging = Averaging(groups, link, model, self.seed, self.error_feedback, device)
        return DenseReducer(averaging, not self.error_feedback, self.policy.start().bits)


class TernGradReducer(DenseReducer):
    """A reducer that clips its rank's gradient, parameter by parameter, before it is coded."""

    def __init__(self, averaging: Averaging, layout: Layout, clip: float | None):
        super().__init__(averaging, True, TERNARY)
        self.layout, self.clip = layout, clip

    def average(self, vector: Tensor, step: int) -> None:
        for place in self.layout if self.clip is not None else ():
            values = vector[place.begin : place.end]
            limit = self.clip * torch.linalg.vector_norm(values) / max(1, len(values)) ** 0.5
            values.copy_(torch.minimum(torch.maximum(values, -limit), limit))
        super().average(vector, step)


@dataclass(frozen=True)
class TernGrad:
    """Each value as -s, 0 or s, at random without bias, after clipping (Wen et al., 2017).

    Where it is not the paper's: s is the largest magnitude of 512 values, not of a layer, which makes less variance
    for 1/16 bit a value; ranks do not share it; an average that goes by way of an owner is made ternary once more; a
    value has 2 bits, of the linear codec. The spread that clips is about zero, as the paper's Gaussian is, so that a
    parameter of a single value is not clipped away.

    Parameters
    ----------
    clip: a parameter's gradient is clipped to so many of its standard deviations about zero; None clips nothing.
    seed: of random rounding.
    """

    clip: float | None = 2.5
    seed: int = 0
    codec: CodecId = field(default=CodecId.LINEAR, init=False)
    policy: FixedBits = field(default=FixedBits(TERNARY), init=False)

    def __post_init__(self) -> None:
        if self.clip is not None and not 0 < self.clip < inf:
            raise DataError(f"clip={self.clip}: it has to be more than 0 and finite; None clips nothing")

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> TernGradReducer:
        averaging = Averaging(Groups.of(vector_length(layout)), link, model, self.seed, False, device)
        return TernGradReducer(averaging, layout, self.clip)


@dataclass(frozen=True)
class EFSign:
    """A bit a value: signs with the mean magnitude of 512, and error feedback (Karimireddy et al., 2019)."""

    codec: CodecId = field(default=CodecId.SIGN, init=False)
    policy: FixedBits = field(default=FixedBits(1), init=False)

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> DenseReducer:
        averaging = Averaging(Groups.of(vector_length(layout)), link, model, 0, True, device)
        return DenseReducer(averaging, False, 1)
