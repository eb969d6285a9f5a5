"""Quantizers for the factors of low-rank gradients: float32, or logarithmic levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..codecs import log
from ..codecs.groups import Groups
from ..codecs.tensors import gpu_module, on_host


@dataclass(frozen=True)
class Float32Quantizer:
    """Float32 values, 4 bytes each. The encoding is lossless, so it sends the residual and sets it to zero."""

    def body_bytes(self, groups: Groups) -> int:
        return 4 * groups.count

    def encode(self, values: Tensor, groups: Groups, residual: Tensor | None, seed: int) -> Tensor:
        if residual is None:
            return values.clone().view(torch.uint8)
        total = values + residual
        residual.zero_()
        return total.view(torch.uint8)

    def decode(self, body: Tensor, groups: Groups, out: Tensor, add: bool) -> None:
        values = body.to(out.device).view(torch.float32)
        if add:
            out += values
        else:
            out.copy_(values)


@dataclass(frozen=True)
class LogQuantizer:
    """Logarithmic levels with rounding to the nearest; parameters as in `log.encode`."""

    bits: int
    alpha: float

    def body_bytes(self, groups: Groups) -> int:
        return log.body_bytes(groups, self.bits)

    def encode(self, values: Tensor, groups: Groups, residual: Tensor | None, seed: int) -> Tensor:
        if not on_host(values.device):
            body: Tensor = _gpu().encode(values, groups, self.bits, self.alpha, residual)
            return body
        array = None if residual is None else residual.numpy()
        return torch.from_numpy(log.encode(values.numpy(), groups, self.bits, self.alpha, array))

    def decode(self, body: Tensor, groups: Groups, out: Tensor, add: bool) -> None:
        if on_host(out.device):
            log.decode(body.numpy(), groups, self.bits, self.alpha, out.numpy(), add)
        else:
            _gpu().decode(body.to(out.device), groups, self.bits, self.alpha, out, add)


def _gpu() -> Any:
    return gpu_module("log")
