"""Exact top-k of each chunk on a GPU, in operations of torch, as in `codecs.chunks`."""

from __future__ import annotations

from torch import Tensor

from ..largest import SMALLEST


def largest_in_rows(rows: Tensor, count: int) -> Tensor:
    """Return the indices of the largest magnitudes of each row, as `chunks.largest_in_rows` does.

    Waits for the device twice.
    """
    magnitudes = rows.abs()
    least = magnitudes.topk(count).values[:, -1:].clamp(min=SMALLEST)
    chosen = magnitudes >= least
    tied = (chosen.sum(1) > count).nonzero().flatten()
    above, equal = magnitudes[tied] > least[tied], magnitudes[tied] == least[tied]
    chosen[tied] = above | equal & (equal.cumsum(1) <= count - above.sum(1, keepdim=True))
    return chosen.flatten().nonzero().flatten()
