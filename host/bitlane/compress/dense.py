"""Compressors that code every value by itself: QSGD, TernGrad, EFSign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..errors import DataError
from . import linear, sign
from .averaging import Averaging, Quantizer
from .compressor import Layout, State, whole
from .groups import Groups
from .link import Link
from .plan import LinkModel
from .policy import BitPolicy, FixedBits
from .wire import CodecId


@dataclass(frozen=True)
class Linear:
    """Evenly spaced levels, as a quantizer of `Averaging`."""

    bits: int
    stochastic: bool

    def body_bytes(self, groups: Groups) -> int:
        return linear.body_bytes(groups, self.bits)

    def encode(self, values: Tensor, groups: Groups, residual: Tensor | None, seed: int) -> Tensor:
        kept = None if residual is None else residual.numpy()
        body = linear.encode(values.numpy(), groups, self.bits, kept, seed if self.stochastic else None)
        return torch.from_numpy(body)

    def decode(self, body: Tensor, groups: Groups, out: Tensor, add: bool) -> None:
        linear.decode(body.numpy(), groups, self.bits, out.numpy(), add)


@dataclass(frozen=True)
class Sign:
    """Scaled signs, as a quantizer of `Averaging`."""

    def body_bytes(self, groups: Groups) -> int:
        return sign.body_bytes(groups)

    def encode(self, values: Tensor, groups: Groups, residual: Tensor | None, seed: int) -> Tensor:
        kept = None if residual is None else residual.numpy()
        return torch.from_numpy(sign.encode(values.numpy(), groups, kept))

    def decode(self, body: Tensor, groups: Groups, out: Tensor, add: bool) -> None:
        sign.decode(body.numpy(), groups, out.numpy(), add)


class DenseReducer:
    """The reducer of the compressors of this file."""

    def __init__(self, averaging: Averaging, stochastic: bool, bits: int):
        self.averaging, self.stochastic, self.bits = averaging, stochastic, bits

    def average(self, vector: Tensor, step: int) -> None:
        quantizer: Quantizer = Sign() if self.bits == 1 else Linear(self.bits, self.stochastic)
        self.averaging.average(vector, quantizer, step)

    def kept(self) -> Tensor | None:
        return None if self.averaging.residual is None else self.averaging.kept()

    def state_dict(self) -> dict[str, Any]:
        return self.averaging.state_dict()

    def load_state_dict(self, state: State) -> None:
        self.averaging.load_state_dict(state)

    def take_over(self, states: Sequence[State], kept: Tensor | None) -> None:
        if kept is not None:
            self.averaging.take_over(kept)


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

    def reducer(self, layout: Layout, link: Link, model: LinkModel, device: torch.device) -> DenseReducer:
        groups = Groups.of(whole(layout))
        averaging = Averaging(groups, link, model, self.seed, self.error_feedback, device)
        return DenseReducer(averaging, not self.error_feedback, self.policy.start().bits)


@dataclass(frozen=True)
class EFSign:
    """A bit a value: signs with the mean magnitude of 512, and error feedback (Karimireddy et al., 2019)."""

    codec: CodecId = field(default=CodecId.SIGN, init=False)
    policy: FixedBits = field(default=FixedBits(1), init=False)

    def reducer(self, layout: Layout, link: Link, model: LinkModel, device: torch.device) -> DenseReducer:
        averaging = Averaging(Groups.of(whole(layout)), link, model, 0, True, device)
        return DenseReducer(averaging, False, 1)
