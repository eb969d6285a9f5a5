"""Exact top-k by magnitude on a GPU, as in `codecs.largest`: a sample gives a threshold, a partial sort the rest."""

from __future__ import annotations

import torch
from torch import Tensor

from ..largest import SMALLEST, sampling
from .select import select


def largest(values: Tensor, count: int) -> Tensor:
    """Return the indices of the `count` largest magnitudes of finite values, float32 [n], as `largest.largest` does.

    Waits for the device three times.
    """
    if count <= 0 or not len(values):
        return torch.zeros(0, dtype=torch.int64, device=values.device)
    stride, rank = sampling(len(values), count)
    threshold = max(float(values[::stride].abs().topk(rank, sorted=False).values.min()), SMALLEST)
    indices, selected = select(values, threshold)
    if len(indices) < count and threshold > SMALLEST:
        indices, selected = select(values, SMALLEST)
    return indices if len(indices) <= count else indices[_first_largest(selected.abs(), count)]


def _first_largest(magnitudes: Tensor, count: int) -> Tensor:
    """Return a mask of the `count` < k largest of magnitudes [k], of equal ones the first."""
    surplus = len(magnitudes) - count
    least = magnitudes.topk(surplus + 1, largest=False, sorted=False).values.max()
    chosen, ties = magnitudes > least, magnitudes == least
    return chosen | (ties & (ties.cumsum(0) <= count - chosen.sum()))
