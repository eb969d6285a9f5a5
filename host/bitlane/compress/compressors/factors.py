"""How the factors of low-rank gradients travel: as they are, or as levels of logarithms; quantizers of `Averaging`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..codecs import log
from ..codecs.groups import Groups


@dataclass(frozen=True)
class Float32Quantizer:
    """Values as they are, 4 bytes each: nothing is lost, so that a residual is sent whole and becomes zero."""

    def body_bytes(self, groups: Groups) -> int:
        return 4 * groups.count

    def encode(self, values: Tensor, groups: Groups, residual: Tensor | None, seed: int) -> Tensor:
        if residual is None:
            return values.clone().view(torch.uint8)
        whole = values + residual
        residual.zero_()
        return whole.view(torch.uint8)

    def decode(self, body: Tensor, groups: Groups, out: Tensor, add: bool) -> None:
        values = body.view(torch.float32)
        if add:
            out += values
        else:
            out.copy_(values)


@dataclass(frozen=True)
class LogQuantizer:
    """Levels of logarithms, rounded to the nearest; `log.encode` has the parameters."""

    bits: int
    alpha: float

    def body_bytes(self, groups: Groups) -> int:
        return log.body_bytes(groups, self.bits)

    def encode(self, values: Tensor, groups: Groups, residual: Tensor | None, seed: int) -> Tensor:
        kept = None if residual is None else residual.numpy()
        return torch.from_numpy(log.encode(values.numpy(), groups, self.bits, self.alpha, kept))

    def decode(self, body: Tensor, groups: Groups, out: Tensor, add: bool) -> None:
        log.decode(body.numpy(), groups, self.bits, self.alpha, out.numpy(), add)
