"""Systems with a Gram matrix that may be singular: Cholesky decompositions, by numpy alone.

Where a pivot can be rounding, the decomposition chooses pivots (N. Higham, "Analysis of the Cholesky decomposition of a
semi-definite matrix", 1990). The columns that it leaves are combinations of those that it chose, and so span the
directions that change no prediction.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.coded_rows import Floats

EPSILON = float(np.finfo(np.float64).eps)
TOGETHER = 64  # rows of a triangle, and pivots, that are worked on at a time


class GramInverse:
    """The pseudo-inverse of a Gram matrix, without the directions that rounding leaves.

    Units in which the diagonal is 1 decide what rounding can be, so that scales of columns do no harm.

    Parameters
    ----------
    gram : float64 array [m, m]
    alpha : float
        Penalty, which is added to the diagonal.
    constant : bool array [m]
        Columns to leave out.

    Attributes
    ----------
    rank : int
    """

    def __init__(self, gram: Floats, alpha: float, constant: NDArray[np.bool_]):
        live = np.flatnonzero(~constant)
        self._scale = 1 / np.sqrt(np.diag(gram)[live] + alpha)
        system = gram[np.ix_(live, live)] * self._scale[:, None]
        system *= self._scale
        np.fill_diagonal(system, 1.0)
        tolerance = 16 * len(live) * EPSILON
        order, self._root = np.arange(len(live)), _root(system, tolerance)
        if len(self._root) < len(live):
            order, self._root = _pivoted_root(system, tolerance)
        others = np.setdiff1d(np.arange(len(live)), order)
        self._kept, self.rank = live[order], len(order)
        self._flat = np.zeros((len(gram), len(others)))  # orthonormal directions that change no prediction
        if len(others):
            combined = _backward(self._root, _forward(self._root, system[np.ix_(order, others)]))
            self._flat[self._kept] = -self._scale[order, None] * combined
            self._flat[live[others], np.arange(len(others))] = self._scale[others]
            self._flat = np.linalg.qr(self._flat)[0]
        self._scale = self._scale[order, None]

    def __matmul__(self, right: Floats) -> Floats:
        """Return the product with [m, K]: of the solutions of systems, those with the least sums of squares."""
        return self._lean(self.basic(self._lean(right)))

    def basic(self, right: Floats) -> Floats:
        """Return solutions [m, K] of systems in which columns that are combinations of others have zeros."""
        found = np.zeros_like(right)
        found[self._kept] = self._scale * _backward(self._root, self._halves(right))
        return found

    def energy(self, right: Floats) -> Floats:
        """Return the products [K] of right sides [m, K] and their solutions."""
        return np.asarray((self._halves(right) ** 2).sum(axis=0))

    def diagonal(self) -> Floats:
        """Return the diagonal, float64 [m]."""
        factor = np.zeros((self.rank, len(self._flat)))
        factor[:, self._kept] = _forward(self._root, np.eye(self.rank)) * self._scale[:, 0]
        factor -= (factor @ self._flat) @ self._flat.T
        return np.asarray((factor**2).sum(axis=0))

    def _halves(self, right: Floats) -> Floats:
        return _forward(self._root, self._scale * right[self._kept])

    def _lean(self, vectors: Floats) -> Floats:
        """Return vectors [m, K] without what changes no prediction."""
        return np.asarray(vectors - self._flat @ (self._flat.T @ vectors))


def _root(system: Floats, tolerance: float) -> Floats:
    """Return the Cholesky root of a matrix with a diagonal of 1; an empty one if a pivot can be rounding."""
    try:
        root: Floats = np.linalg.cholesky(system).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        return np.empty((0, 0))
    return root if (np.diag(root) ** 2 > tolerance).all() else root[:0, :0]


def _pivoted_root(system: Floats, tolerance: float) -> tuple[NDArray[np.intp], Floats]:
    """Return the columns [rank] that are no combinations of others, and the Cholesky root of their matrix."""
    left, rest, order = system, np.arange(len(system)), np.empty(0, np.intp)
    rows = np.zeros_like(system)
    while len(rest):
        width = min(TOGETHER, len(rest))
        panel, diagonal, free = np.zeros((len(rest), width)), left.diagonal().copy(), np.ones(len(rest))
        chosen: list[int] = []
        while len(chosen) < width:
            k, pivot = len(chosen), int(diagonal.argmax())
            if diagonal[pivot] <= tolerance:
                break
            column = (left[pivot] - panel[:, :k] @ panel[pivot, :k]) * free
            panel[:, k] = column / np.sqrt(diagonal[pivot])
            diagonal -= panel[:, k] ** 2
            diagonal[pivot] = free[pivot] = 0.0
            chosen.append(pivot)
        rows[rest, len(order) : len(order) + len(chosen)] = panel[:, : len(chosen)]
        order = np.append(order, rest[chosen])
        if len(chosen) < width:
            break
        stays = np.delete(np.arange(len(rest)), chosen)
        panel, rest = panel[stays], rest[stays]
        left = left[np.ix_(stays, stays)] - panel @ panel.T
    return order, rows[order, : len(order)]


def _forward(root: Floats, right: Floats) -> Floats:
    """Solve ``L v = right`` in blocks: numpy has no solver for triangles."""
    v = np.array(right)
    for start in range(0, len(root), TOGETHER):
        here, rest = slice(start, start + TOGETHER), slice(start + TOGETHER, None)
        v[here] = np.linalg.solve(root[here, here], v[here])
        v[rest] -= root[rest, here] @ v[here]
    return v


def _backward(root: Floats, right: Floats) -> Floats:
    """Solve ``L' v = right``."""
    v = np.array(right)
    for start in reversed(range(0, len(root), TOGETHER)):
        here = slice(start, start + TOGETHER)
        v[here] = np.linalg.solve(root[here, here].T, v[here])
        v[:start] -= root[here, :start].T @ v[here]
    return v
