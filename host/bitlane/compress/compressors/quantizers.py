"""The codecs with a code for each value, and bfloat16, as quantizers of `Averaging`, on a CPU or a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..codecs import linear, sign
from ..codecs.groups import Bits, Groups
from ..codecs.tensors import gpu_module


@dataclass(frozen=True)
class LinearQuantizer:
    """Evenly spaced levels, as a `Quantizer`; `stochastic` selects stochastic rounding instead of nearest.

    `bits` are those of all groups, unless the groups have widths of their own.
    """

    bits: int
    stochastic: bool

    def body_bytes(self, groups: Groups) -> int:
        return linear.body_bytes(groups, self._bits(groups))

    def encode(self, values: Tensor, groups: Groups, residual: Tensor | None, seed: int) -> Tensor:
        rounding_seed = seed if self.stochastic else None
        bits = self._bits(groups)
        if values.is_cuda:
            body: Tensor = _gpu().encode(values, groups, bits, residual, rounding_seed)
            return body
        array = None if residual is None else residual.numpy()
        return torch.from_numpy(linear.encode(values.numpy(), groups, bits, array, rounding_seed))

    def decode(self, body: Tensor, groups: Groups, out: Tensor, add: bool) -> None:
        bits = self._bits(groups)
        if out.is_cuda:
            _gpu().decode(body.to(out.device), groups, bits, out, add)
        else:
            linear.decode(body.numpy(), groups, bits, out.numpy(), add)

    def _bits(self, groups: Groups) -> Bits:
        return self.bits if groups.widths is None else groups.widths


@dataclass(frozen=True)
class SignQuantizer:
    """Scaled signs, as a `Quantizer`."""

    def body_bytes(self, groups: Groups) -> int:
        return sign.body_bytes(groups)

    def encode(self, values: Tensor, groups: Groups, residual: Tensor | None, seed: int) -> Tensor:
        if values.is_cuda:
            body: Tensor = _gpu().encode(values, groups, 1, residual, None)
            return body
        array = None if residual is None else residual.numpy()
        return torch.from_numpy(sign.encode(values.numpy(), groups, array))

    def decode(self, body: Tensor, groups: Groups, out: Tensor, add: bool) -> None:
        if out.is_cuda:
            _gpu().decode(body.to(out.device), groups, 1, out, add)
        else:
            sign.decode(body.numpy(), groups, out.numpy(), add)


@dataclass(frozen=True)
class BFloat16Quantizer:
    """Bfloat16 values, rounded to the nearest, as a `Quantizer` without residuals."""

    def body_bytes(self, groups: Groups) -> int:
        return 2 * groups.count

    def encode(self, values: Tensor, groups: Groups, residual: Tensor | None, seed: int) -> Tensor:
        assert residual is None
        return values.bfloat16().view(torch.uint8)

    def decode(self, body: Tensor, groups: Groups, out: Tensor, add: bool) -> None:
        values = body.to(out.device).view(torch.bfloat16)
        if add:
            out += values
        else:
            out.copy_(values)


def _gpu() -> Any:
    return gpu_module("codes")
