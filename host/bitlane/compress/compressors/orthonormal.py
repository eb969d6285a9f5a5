"""Orthonormal columns of several matrices, in float64 and a fixed order.

Cholesky's QR algorithm, twice (Yamamoto et al., 2015), takes a few products for all columns of all matrices of a shape,
and all matrices are checked at once: a GPU waits for no column. The Gram-Schmidt process takes the matrices with
dependent columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock

import torch
from torch import Tensor

DEPENDENT = 2.0**-20  # a column whose remainder is relatively smaller counts as dependent: float32 has 24 bits
Fresh = Callable[[int, int], Tensor]

_LOADING = Lock()


def load_linear_algebra(device: torch.device) -> None:
    """Let torch load its linear algebra for a GPU: its first use by several threads at once fails (pytorch #90613)."""
    if device.type == "cuda":
        with _LOADING:
            torch.linalg.cholesky_ex(torch.eye(1, device=device))


def orthonormalize(matrices: Sequence[Tensor], fresh: Fresh | None = None) -> list[Tensor]:
    """Return orthonormal columns for each matrix, with the same span; the first columns span what they spanned.

    Ranks with the same input get identical results if they have the same processor type, build of torch and number of
    threads.

    Parameters
    ----------
    matrices : sequence of Tensor, float32 [r, n]
        The columns of each, one per row; r is at most n.
    fresh : callable or None, default: None
        Returns a replacement, float32 [n], for column k of matrix i, `fresh(i, k)`, if that is zero or depends on the
        previous ones. With None such columns become zero.

    Returns
    -------
    list of Tensor, float32 [r, n]
    """
    by_shape: dict[torch.Size, list[int]] = defaultdict(list)
    for i, columns in enumerate(matrices):
        by_shape[columns.shape].append(i)
    stacks = [_cholesky_qr(torch.stack([matrices[i] for i in same]).double()) for same in by_shape.values()]
    independent = torch.cat([each for _, each in stacks]).tolist() if stacks else []
    quick = [columns for stack, _ in stacks for columns in stack.float()]
    results = list(matrices)
    for number, i in enumerate(i for same in by_shape.values() for i in same):
        own = partial(fresh, i) if fresh is not None else None
        results[i] = quick[number] if independent[number] else _gram_schmidt(matrices[i].double(), own).float()
    return results


def _cholesky_qr(columns: Tensor) -> tuple[Tensor, Tensor]:
    """Return orthonormal columns of matrices [b, r, n], and whether the given ones are independent, bool [b].

    The diagonal of Cholesky's factor has the length of what each column adds to the previous ones.
    """
    products = columns @ columns.mT
    factor, failed = torch.linalg.cholesky_ex(products)
    added, lengths = factor.diagonal(dim1=1, dim2=2), products.diagonal(dim1=1, dim2=2).sqrt()
    basis = torch.linalg.solve_triangular(factor, columns, upper=False)
    second = torch.linalg.cholesky_ex(basis @ basis.mT)[0]
    basis = torch.linalg.solve_triangular(second, basis, upper=False)
    return basis, (failed == 0) & (added > DEPENDENT * lengths).all(1)


def _gram_schmidt(columns: Tensor, fresh: Callable[[int], Tensor] | None) -> Tensor:
    basis = torch.zeros_like(columns)
    for k, column in enumerate(columns):
        direction = _new_direction(column, basis[:k])
        if direction is None and fresh is not None:
            direction = _new_direction(fresh(k).double(), basis[:k])
        if direction is not None:
            basis[k] = direction
    return basis


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
