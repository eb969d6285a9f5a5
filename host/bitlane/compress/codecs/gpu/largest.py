"""Exact top-k by magnitude on a GPU: the indices of `codecs.largest`."""

from __future__ import annotations

import torch
from torch import Tensor


def largest(values: Tensor, count: int) -> Tensor:
    """Return the indices of the `count` largest magnitudes of finite values, float32 [n], as `largest.largest` does."""
    count = min(count, len(values))
    if count <= 0:
        return torch.zeros(0, dtype=torch.int64, device=values.device)
    magnitudes = values.abs()
    least = torch.topk(magnitudes, count, sorted=False).values.min()
    chosen = magnitudes > least
    if float(least) > 0:
        ties = (magnitudes == least).nonzero().flatten()
        chosen[ties[: count - int(chosen.sum())]] = True
    return chosen.nonzero().flatten()
