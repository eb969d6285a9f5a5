"""A matrix of gradients and its low-rank part, in as few passes over the memory as there can be.

The residual M - P S^T of a step is not computed when P and S are known, but in the next step, together with the sum
with the gradient and the product that are due then, a few rows at a time that stay in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

BLOCK = 2**16  # values of the rows that are taken at a time: 256 KiB


class Matrix:
    """A rank's gradient of one parameter, as a matrix [m, n], and what it keeps of it from step to step.

    A factor is float32 [r, m] or [r, n], a column of the matrix that the papers write in each row.
    """

    def __init__(self, rows: int, columns: int, rank: int, device: torch.device):
        self.whole = torch.zeros(rows, columns, device=device)
        self.left = torch.zeros(rank, rows, device=device)
        self.sent = torch.zeros(rank, columns, device=device)

    def times(self, gradient: Tensor, right: Tensor, out: Tensor) -> None:
        """M = residual + `gradient` [m, n], and `out` [r, m] = (M Q)^T for `right` Q^T [r, n]."""
        for rows in self._blocks():
            block = self.whole[rows]
            self._settle(rows)
            block += gradient[rows]
            out[:, rows] = (block @ right.T).T

    def transposed_times(self, left: Tensor, out: Tensor) -> None:
        """`out` [r, n] = (M^T P)^T for `left` P^T [r, m]."""
        out.zero_()
        for rows in self._blocks():
            out.addmm_(left[:, rows], self.whole[rows])

    def keep(self, left: Tensor, sent: Tensor) -> None:
        """The residual is M - P S^T from now on, for `left` P^T [r, m] and `sent` S^T [r, n]."""
        self.left.copy_(left)
        self.sent.copy_(sent)

    def residual(self) -> Tensor:
        """float32 [m, n], the matrix's own: what `times` would add the gradient to, to the last bit."""
        for rows in self._blocks():
            self._settle(rows)
        self.left.zero_()
        return self.whole

    def product(self, left: Tensor, right: Tensor, out: Tensor) -> None:
        """`out` [m, n] = P Q^T for P^T [r, m] and Q^T [r, n]."""
        for rows in self._blocks():
            torch.mm(left[:, rows].T, right, out=out[rows])

    def _settle(self, rows: slice) -> None:
        self.whole[rows].addmm_(self.left[:, rows].T, self.sent, alpha=-1)

    def _blocks(self) -> Iterator[slice]:
        rows, columns = self.whole.shape
        step = max(1, BLOCK // columns)
        return (slice(first, first + step) for first in range(0, rows, step))
