"""Least squares on exact rows, from a solution on rows of few bits: preconditioned conjugate gradients.

The Gram matrix of the codes is the preconditioner (Golub, Van Loan, Matrix Computations, 4th edition, 11.5). It is near
that of the rows, so that few steps suffice. Each step reads the rows once, and one read before them computes the first
gradient. Errors of the codes, clipped values too, change the number of steps and not the solution.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bitlane.encoded.coded_rows import Floats
from bitlane.quantization.row_table import dense_pieces

from .gram_inverse import GramInverse
from .least_squares import CenteredMoments, LeastSquares
from .moments import target_matrix


@dataclass(frozen=True, eq=False)
class Refinement:
    """A solution on exact rows.

    Attributes
    ----------
    solution : LeastSquares
        Its squared errors are those on the exact rows.
    reads : int
        Of all rows.
    excess : float64 array [K]
        How far the objective is above its minimum, over the objective. An estimate by the codes' Gram matrix: too low
        where columns are so nearly dependent that their codes are not.
    correlation : float64 array [K]
        Largest correlation of the errors with a column; 0 at the minimum without penalty. With a penalty its gradient
        is counted too.
    """

    solution: LeastSquares
    reads: int
    excess: Floats
    correlation: Floats


def refine(
    solution: LeastSquares,
    centered: CenteredMoments,
    inverse: GramInverse,
    X: Any,
    targets: ArrayLike,
    weights: ArrayLike | None = None,
    steps: int = 2,
    tol: float = 1e-12,
) -> Refinement:
    """Move a solution towards the minimum on exact rows.

    Parameters
    ----------
    solution : LeastSquares
        Near the minimum.
    centered : CenteredMoments
        Of the codes of the rows.
    inverse : GramInverse
        Of these, with the penalty of the solution.
    X : array or RowTable [rows, m]
        Exact rows, with the columns of the moments. Sums are float64.
    targets : array [rows] or [rows, K]
    weights : array [rows], optional
        As for the moments.
    steps : int, default=2
        At most. The rows are read once more; so 0 steps tell how good the solution is.
    tol : float, default=1e-12
        The steps end at this excess of all targets, as `Refinement.excess` has it.

    Returns
    -------
    Refinement
    """
    rows = _ExactRows(X, target_matrix(targets), weights, centered)
    alpha, v = solution.alpha, solution.coefficients.copy()
    residual, objective = rows.first(v)
    residual -= alpha * v
    objective += alpha * np.einsum("jk,jk->k", v, v)
    step_of = inverse @ residual
    energy = np.einsum("jk,jk->k", residual, step_of)
    direction, done = step_of, 0
    while done < steps and (energy > tol * objective).any():
        image = rows.product(direction) + alpha * direction
        bend = np.einsum("jk,jk->k", direction, image)
        length = np.divide(energy, bend, out=np.zeros_like(energy), where=bend > 0)
        v += length * direction
        residual -= length * image
        objective = objective - length * energy
        step_of = inverse @ residual
        before, energy = energy, np.einsum("jk,jk->k", residual, step_of)
        direction = step_of + np.divide(energy, before, out=np.zeros_like(energy), where=before > 0) * direction
        done += 1
    objective = np.maximum(objective, np.finfo(np.float64).tiny)
    errors = np.maximum(objective - alpha * np.einsum("jk,jk->k", v, v), 0.0)
    spread = np.sqrt(np.maximum(np.diag(centered.gram), 0.0))
    spread[centered.constant] = np.inf
    found = replace(solution, coefficients=v, intercepts=rows.intercepts(v), squared_errors=errors / rows.weight)
    correlation = (np.abs(residual) / spread[:, None]).max(axis=0, initial=0.0) / np.sqrt(objective)
    return Refinement(found, 1 + done, inverse.energy(residual) / objective, correlation)


class _ExactRows:
    """Products with the centred Gram matrix of exact rows, each by one read."""

    def __init__(self, X: Any, y: Floats, weights: ArrayLike | None, centered: CenteredMoments):
        self._X, self._y, self._intercept = X, y, centered.intercept
        self._w = None if weights is None else np.asarray(weights, np.float64)
        self.weight = float(len(y) if self._w is None else self._w.sum())
        self._center, self._target_center = centered.mean, centered.target_mean
        self._mean = np.zeros_like(self._center)  # less the center
        self._target_mean = np.zeros(y.shape[1])

    def first(self, v: Floats) -> tuple[Floats, Floats]:
        """Compute means; return the product [m, K] of columns and errors, and the sums of squared errors [K]."""
        products, sums = np.zeros_like(v), np.zeros(len(v))
        errors, squares, targets = np.zeros(v.shape[1]), np.zeros(v.shape[1]), np.zeros(v.shape[1])
        for u, y, w in self._pieces():
            e = y - u @ v
            weighted = e * w
            products += u.T @ weighted
            sums += (u * w).sum(axis=0) if np.ndim(w) else u.sum(axis=0)
            errors += weighted.sum(axis=0)
            squares += np.einsum("rk,rk->k", e, weighted)
            targets += (y * w).sum(axis=0)
        if self._intercept:
            self._mean, self._target_mean = sums / self.weight, targets / self.weight
            products -= np.outer(self._mean, errors)
            squares -= errors**2 / self.weight
        return products, squares

    def product(self, direction: Floats) -> Floats:
        """Return the Gram matrix of the centred rows times a direction [m, K]."""
        products, sums = np.zeros_like(direction), np.zeros(direction.shape[1])
        for u, _, w in self._pieces():
            z = (u @ direction) * w
            products += u.T @ z
            sums += z.sum(axis=0)
        return products - np.outer(self._mean, sums)

    def intercepts(self, v: Floats) -> Floats:
        """Return the intercepts [K] that belong to coefficients."""
        if not self._intercept:
            return np.zeros(v.shape[1])
        return self._target_center + self._target_mean - (self._center + self._mean) @ v

    def _pieces(self) -> Any:
        first = 0
        for piece in dense_pieces(self._X):
            here = slice(first, first + len(piece))
            first += len(piece)
            w = 1.0 if self._w is None else self._w[here, None]
            yield piece - self._center, self._y[here] - self._target_center, w
