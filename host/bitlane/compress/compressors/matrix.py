"""A gradient matrix and its low-rank part, with few passes over the memory.

The subtraction of P S^T from the residual is deferred to the next step. There one pass over blocks of rows, which stay
in the cache, computes the residual M - P S^T, adds the gradient and multiplies by Q. On a GPU the
matrix is one block, because each operation is a launch.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

BLOCK = 2**17  # values per block of rows: 512 KiB


class GradientMatrix:
    """The gradient of one parameter on one rank, as a matrix [m, n], and its residual.

    Factors are stored transposed: float32 [r, m] or [r, n], one column of the paper's factor per row; r is `rank`.
    """

    def __init__(self, rows: int, columns: int, rank: int, device: torch.device):
        self.rank = rank
        self.values = torch.zeros(rows, columns, device=device)
        self.left = torch.zeros(rank, rows, device=device)
        self.sent = torch.zeros(rank, columns, device=device)

    def times(self, gradient: Tensor, right: Tensor, out: Tensor) -> None:
        """Compute M = residual + `gradient` [m, n], and `out` [r, m] = (M Q)^T for `right` = Q^T [r, n]."""
        for rows in self._blocks():
            block = self.values[rows]
            self._subtract_deferred(rows)
            block += gradient[rows]
            out[:, rows] = (block @ right.T).T

    def transposed_times(self, left: Tensor, out: Tensor) -> None:
        """Compute `out` [r, n] = (M^T P)^T for `left` = P^T [r, m]."""
        out.zero_()
        for rows in self._blocks():
            out.addmm_(left[:, rows], self.values[rows])

    def keep(self, left: Tensor, sent: Tensor) -> None:
        """Set the residual to M - P S^T, deferred, for `left` = P^T [r, m] and `sent` = S^T [r, n]."""
        self.left.copy_(left)
        self.sent.copy_(sent)

    def residual(self) -> Tensor:
        """Return the residual, float32 [m, n]: the stored matrix itself, to which `times` adds the gradient."""
        for rows in self._blocks():
            self._subtract_deferred(rows)
        self.left.zero_()
        return self.values

    def product(self, left: Tensor, right: Tensor, out: Tensor) -> None:
        """Compute `out` [m, n] = P Q^T for `left` = P^T [r, m] and `right` = Q^T [r, n]."""
        for rows in self._blocks():
            torch.mm(left[:, rows].T, right, out=out[rows])

    def _subtract_deferred(self, rows: slice) -> None:
        self.values[rows].addmm_(self.left[:, rows].T, self.sent, alpha=-1)

    def _blocks(self) -> Iterator[slice]:
        rows, columns = self.values.shape
        step = rows if self.values.is_cuda else max(1, BLOCK // columns)
        return (slice(first, first + step) for first in range(0, rows, step))
