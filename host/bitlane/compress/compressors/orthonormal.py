"""Orthonormal columns by the Gram-Schmidt process, in float64 and a fixed order."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

LEFT = 2.0**-20  # a column of which less is left is as good as dependent: float32 has 24 bits


def orthonormalize(columns: Tensor, fresh: Callable[[int], Tensor] | None = None) -> Tensor:
    """Columns of length 1 and at right angles that span what the given ones do, float32 [r, n].

    Ranks that do this with the same bytes get the same bytes, where they have the same kind of processor, build of
    torch and number of threads.

    Parameters
    ----------
    columns: float32 [r, n], one a row, r at most n; each is taken in turn, less its parts along those before it.
    fresh: gives a column float32 [n] for number k where that one is zero or depends on those before it; None makes
        such columns zero.
    """
    found = torch.zeros(columns.shape, dtype=torch.float64, device=columns.device)
    for k, column in enumerate(columns):
        rest = _rest(column.double(), found[:k])
        if rest is None and fresh is not None:
            rest = _rest(fresh(k).double(), found[:k])
        if rest is not None:
            found[k] = rest
    return found.float()


def _rest(column: Tensor, before: Tensor) -> Tensor | None:
    """What is left of a column at right angles to `before`, of length 1; None where that is next to nothing.

    Twice, so that what cancels is not missed.
    """
    length = column.norm()
    rest = column
    for _ in range(2):
        rest = rest - before.T @ (before @ rest)
    left = rest.norm()
    return None if left <= LEFT * length else rest / left
