"""Residuals in 16 bits: sums and quantization errors are computed in float32, and stored in bfloat16.

bfloat16 has the range of float32. float16 is not offered: residuals above 65504 would overflow, and those below 2**-25,
which are common in gradients, would be zero.
"""

from __future__ import annotations

import torch
from torch import Tensor

RESIDUAL_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
BLOCK = 2**18  # values that are converted at a time


def add_residual(values: Tensor, residual: Tensor) -> None:
    """Add a residual of any type to values, float32 [n], in place."""
    for block, added in zip(values.split(BLOCK), residual.split(BLOCK), strict=True):
        block += added  # torch converts it to float32


def rounding_bound(residual: Tensor) -> Tensor:
    """Return the most that rounding to bfloat16 can have changed each value, float32 [n]: half of its last place."""
    finfo = torch.finfo(torch.bfloat16)
    return residual.float().abs().clamp_(min=finfo.tiny).mul_(finfo.eps / 2)
