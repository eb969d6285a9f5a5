"""Orthonormal columns by the Gram-Schmidt process, in float64 and a fixed order."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

DEPENDENT = 2.0**-20  # a column whose remainder is relatively smaller counts as dependent: float32 has 24 bits


def orthonormalize(columns: Tensor, fresh: Callable[[int], Tensor] | None = None) -> Tensor:
    """Orthonormalize columns by the Gram-Schmidt process.

    Ranks with the same input get identical results if they have the same processor type, build of torch and number of
    threads.

    Parameters
    ----------
    columns : Tensor, float32 [r, n]
        The columns, one per row; r is at most n.
    fresh : callable or None, default: None
        Returns a replacement, float32 [n], for column k if that is zero or depends on the previous ones. With None
        such columns become zero.

    Returns
    -------
    Tensor, float32 [r, n]
        Orthonormal columns with the same span.
    """
    found = torch.zeros(columns.shape, dtype=torch.float64, device=columns.device)
    for k, column in enumerate(columns):
        direction = _new_direction(column.double(), found[:k])
        if direction is None and fresh is not None:
            direction = _new_direction(fresh(k).double(), found[:k])
        if direction is not None:
            found[k] = direction
    return found.float()


def _new_direction(column: Tensor, before: Tensor) -> Tensor | None:
    """Return the unit vector of the part of a column orthogonal to `before`; None if the column is dependent.

    The projection is subtracted twice, because cancellation makes the first result inexact.
    """
    length = column.norm()
    rest = column
    for _ in range(2):
        rest = rest - before.T @ (before @ rest)
    left = rest.norm()
    return None if left <= DEPENDENT * length else rest / left
