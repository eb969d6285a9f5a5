"""Residuals in 16 bits: sums and quantization errors are computed in float32, and stored in bfloat16.

bfloat16 has the range of float32. float16 is not offered: residuals above 65504 would overflow, and those below 2**-25,
which are common in gradients, would be zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..codecs.groups import Groups

if TYPE_CHECKING:
    from .averaging import Quantizer

RESIDUAL_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
BLOCK = 2**18  # values that are converted at a time


def add_residual(values: Tensor, residual: Tensor) -> None:
    """Add a residual of any type to values, float32 [n], in place."""
    for each, part in zip(values.split(BLOCK), residual.split(BLOCK), strict=True):
        each += part  # torch converts the part to float32


def encode_with_residual(quantizer: Quantizer, values: Tensor, groups: Groups, residual: Tensor, seed: int) -> Tensor:
    """Encode as `Quantizer.encode` does, with a residual in bfloat16: it is rounded to the nearest after the step.

    Parameters
    ----------
    quantizer, groups, seed
        As in `Quantizer.encode`.
    values : Tensor, float32 [groups.count]
        The values. Overwritten, because they are the room for the sum and for its quantization error.
    residual : Tensor, bfloat16 [groups.count]
        Added to the values before encoding; overwritten with the quantization error.

    Returns
    -------
    Tensor, uint8 [quantizer.body_bytes(groups)]
        The body, with the bytes that a float32 residual of the same values gives.
    """
    add_residual(values, residual)
    body = quantizer.encode(values, groups, None, seed)
    values.neg_()
    quantizer.decode(body, groups, values, add=True)
    residual.copy_(values).neg_()
    return body


def rounding_bound(residual: Tensor) -> Tensor:
    """Return the most that rounding to bfloat16 can have changed each value, float32 [n]: half of its last place."""
    finfo = torch.finfo(torch.bfloat16)
    return residual.float().abs().clamp_(min=finfo.tiny).mul_(finfo.eps / 2)
