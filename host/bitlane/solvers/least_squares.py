"""Ridge regression from moments: coefficients, paths of penalties, errors on folds, and standard errors.

The objective is that of scikit-learn's `Ridge`: sum over rows of ``w (y - b - x.v)**2 + alpha |v|**2``, in user units,
with no penalty of the intercept b. One solution costs a Cholesky decomposition of the Gram matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.coded_rows import Floats

from .moments import Moments

EPSILON = float(np.finfo(np.float64).eps)
SPECTRUM_PENALTIES = 24  # from here on, one eigendecomposition is quicker than a decomposition for each penalty
SOLVED_TOGETHER = 64  # rows of a triangle
SPECTRUM_RANGE = 1e-9  # least penalty over the largest eigenvalue for which one eigendecomposition is accurate


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """A solution for K targets.

    Attributes
    ----------
    coefficients : float64 array [m, K]
        User units of target over user units of column.
    intercepts : float64 array [K]
    alpha : float
        Penalty, of a sum over rows.
    squared_errors : float64 array [K]
        Weighted mean of the squared errors, on the rows of the moments.
    rank : int
        Of the centred columns, to rounding. Below the number of columns that vary, some are combinations of others:
        then the solution with the least sum of squares of coefficients was chosen.
    varying : int
        Number of columns that vary. The others have coefficients of 0.
    """

    coefficients: Floats
    intercepts: Floats
    alpha: float
    squared_errors: Floats
    rank: int
    varying: int


@dataclass(frozen=True, eq=False)
class CenteredMoments:
    """Moments about the means; without an intercept, about 0.

    Attributes
    ----------
    gram : float64 array [m, m]
    products : float64 array [m, K]
    mean : float64 array [m]
    target_mean : float64 array [K]
    constant : bool array [m]
        Columns that do not vary, to rounding.
    """

    gram: Floats
    products: Floats
    mean: Floats
    target_mean: Floats
    constant: NDArray[np.bool_]

    @staticmethod
    def of(moments: Moments, intercept: bool) -> CenteredMoments:
        """Center moments, of rows of which one has a weight above 0."""
        if not moments.weight > 0:
            raise ValueError("least squares needs a row with a weight above 0")
        if intercept:
            mean = moments.center + moments.sums / moments.weight
            target_mean = moments.target_center + moments.target_sums / moments.weight
        else:
            mean, target_mean = np.zeros_like(moments.center), np.zeros_like(moments.target_center)
        about = moments.about(mean, target_mean)
        rounding = 64 * EPSILON * (np.diag(moments.gram) + moments.weight * (mean - moments.center) ** 2)
        constant = np.diag(about.gram) <= rounding
        return CenteredMoments(about.gram, about.products, mean, target_mean, constant)

    def solution(self, moments: Moments, v: Floats, alpha: float, rank: int) -> LeastSquares:
        """Return coefficients [m, K] with what belongs to them."""
        intercepts = self.target_mean - self.mean @ v
        errors = squared_errors(moments, v, intercepts)
        return LeastSquares(v, intercepts, alpha, errors, rank, int(np.count_nonzero(~self.constant)))

    def inverse(self, alpha: float) -> Floats:
        """Return the inverse [m, m] of the Gram matrix with a penalty, 0 for columns that do not vary.

        Directions that rounding leaves are left out, as in a pseudo-inverse in units in which the diagonal is 1.
        """
        keep = np.flatnonzero(~self.constant)
        found = np.zeros_like(self.gram)
        if len(keep):
            scale, system = _unit_diagonal(self.gram[np.ix_(keep, keep)], alpha)
            tolerance = _tolerance(system)
            full = _cholesky(system, tolerance) is not None
            inverse = np.linalg.inv(system) if full else np.linalg.pinv(system, tolerance, hermitian=True)
            found[np.ix_(keep, keep)] = inverse * scale[:, None] * scale
        return found


def ridge(moments: Moments, alpha: float = 0.0, intercept: bool = True) -> LeastSquares:
    """Return the coefficients that minimize the sum of squares and the penalty.

    Parameters
    ----------
    moments : Moments
    alpha : float, default=0.0
        Penalty of the sum of squares of the coefficients, 0 or more, compared with a sum over rows.
    intercept : bool, default=True
        Whether to fit an intercept, which has no penalty.

    Returns
    -------
    LeastSquares

    Raises
    ------
    ValueError
        The penalty is negative, or no row has a weight.
    """
    (found,) = ridge_path(moments, [alpha], intercept)
    return found


def ridge_path(moments: Moments, alphas: Sequence[float], intercept: bool = True) -> list[LeastSquares]:
    """Return the solution of `ridge` for each penalty."""
    wrong = next((alpha for alpha in alphas if not 0 <= alpha < np.inf), None)
    if wrong is not None:
        raise ValueError(f"the penalty alpha is {wrong:g}: give a finite number, 0 or more")
    centered = CenteredMoments.of(moments, intercept)
    keep = ~centered.constant
    gram, products = centered.gram[np.ix_(keep, keep)], centered.products[keep]
    found = []
    for alpha, (v, rank) in zip(alphas, _solutions(gram, products, alphas), strict=True):
        full = np.zeros_like(centered.products)
        full[keep] = v
        found.append(centered.solution(moments, full, alpha, rank))
    return found


def squared_errors(moments: Moments, coefficients: Floats, intercepts: Floats) -> Floats:
    """Return the weighted mean of squared errors [K] of linear models on the rows of moments.

    Parameters
    ----------
    moments : Moments
    coefficients : float64 array [m, K]
    intercepts : float64 array [K]
    """
    b = intercepts + moments.center @ coefficients - moments.target_center  # of u = x - c, for v = y - e
    quadratic = np.einsum("jk,jk->k", coefficients, moments.gram @ coefficients)
    linear = np.einsum("jk,jk->k", coefficients, moments.products - np.outer(moments.sums, b))
    total = moments.target_squares - 2 * b * moments.target_sums + moments.weight * b**2 + quadratic - 2 * linear
    return np.asarray(np.maximum(total, 0.0) / moments.weight)


def fold_errors(folds: Sequence[Moments], alphas: Sequence[float], intercept: bool = True) -> Floats:
    """Return the errors of cross-validation, without another read of the table.

    Each fold is left out once: its moments are subtracted from those of all.

    Parameters
    ----------
    folds : sequence of Moments
        Two or more, each with a row.
    alphas : sequence of float
    intercept : bool, default=True

    Returns
    -------
    float64 array [folds, alphas, K]
        Weighted mean of squared errors on the fold that was left out.
    """
    if len(folds) < 2:
        raise ValueError(f"cross-validation needs two folds or more; got {len(folds)}")
    everything = sum(folds[1:], folds[0])
    errors = []
    for fold in folds:
        path = ridge_path(everything - fold, alphas, intercept)
        errors.append([squared_errors(fold, each.coefficients, each.intercepts) for each in path])
    return np.array(errors)


def standard_errors(moments: Moments, solution: LeastSquares) -> tuple[Floats, Floats]:
    """Return the standard errors of coefficients and intercepts, as textbooks have them for normal noise.

    Parameters
    ----------
    moments : Moments
        Weights are numbers of equal rows.
    solution : LeastSquares
        Of these moments, with intercept, without penalty and with full rank.

    Returns
    -------
    coefficients : float64 array [m, K]
        0 for columns that do not vary.
    intercepts : float64 array [K]

    Raises
    ------
    ValueError
        The solution has a penalty, its columns depend on each other, or there are too few rows.
    """
    if solution.alpha:
        raise ValueError(f"standard errors need a fit without penalty; got alpha={solution.alpha:g}")
    if solution.rank < solution.varying:
        raise ValueError(
            f"standard errors need columns that are no combinations of others: {solution.varying} vary, "
            f"with a rank of {solution.rank}"
        )
    freedom = moments.weight - solution.rank - 1
    if freedom <= 0:
        raise ValueError(f"standard errors need more rows than coefficients; got {moments.weight:g} rows")
    centered = CenteredMoments.of(moments, True)
    inverse = centered.inverse(0.0)
    variance = solution.squared_errors * moments.weight / freedom
    mean = centered.mean
    return np.sqrt(np.diag(inverse)[:, None] * variance), np.sqrt(
        variance * (1 / moments.weight + mean @ inverse @ mean)
    )


def _solutions(gram: Floats, products: Floats, alphas: Sequence[float]) -> list[tuple[Floats, int]]:
    """Return coefficients and rank for each penalty."""
    if not len(gram):
        return [(products.copy(), 0)] * len(alphas)
    if len(alphas) >= SPECTRUM_PENALTIES:
        eigenvalues, vectors = np.linalg.eigh(gram)
        if min(alphas) > SPECTRUM_RANGE * eigenvalues[-1]:
            turned = vectors.T @ products
            rank = int(np.count_nonzero(eigenvalues > _tolerance(gram) * eigenvalues[-1]))
            positive = np.maximum(eigenvalues, 0.0)[:, None]
            return [(vectors @ (turned / (positive + alpha)), rank) for alpha in alphas]
    return [_solution(gram, products, alpha) for alpha in alphas]


def _solution(gram: Floats, products: Floats, alpha: float) -> tuple[Floats, int]:
    """Solve for one penalty, in units in which the diagonal is 1, so that scales of columns do no harm."""
    scale, system = _unit_diagonal(gram, alpha)
    tolerance, turned = _tolerance(gram), scale[:, None] * products
    root = _cholesky(system, tolerance)
    if root is not None:
        return scale[:, None] * _solve_by_root(root, turned), len(gram)
    eigenvalues, vectors = np.linalg.eigh(system)
    kept = eigenvalues > tolerance * eigenvalues[-1]
    along = vectors[:, kept]
    v = scale[:, None] * (along @ (along.T @ turned / eigenvalues[kept][:, None]))
    flat = scale[:, None] * vectors[:, ~kept]
    if flat.shape[1]:  # directions that change no prediction
        v = v - flat @ np.linalg.lstsq(flat, v, rcond=None)[0]
    return v, int(np.count_nonzero(kept))


def _unit_diagonal(gram: Floats, alpha: float) -> tuple[Floats, Floats]:
    """Return what the rows and columns of a matrix with a penalty are multiplied by, and the product."""
    scale = 1 / np.sqrt(np.diag(gram) + alpha)
    system = gram * scale[:, None] * scale
    np.fill_diagonal(system, 1.0)
    return scale, system


def _cholesky(system: Floats, tolerance: float) -> Floats | None:
    """Return the Cholesky root of a matrix with a diagonal of 1; None if a pivot can be rounding."""
    try:
        root: Floats = np.linalg.cholesky(system).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        return None
    return root if (np.diag(root) ** 2 > tolerance).all() else None


def _solve_by_root(root: Floats, right: Floats) -> Floats:
    """Solve ``L L' v = right`` in blocks: numpy has no solver for triangles."""
    v, starts = np.array(right), range(0, len(root), SOLVED_TOGETHER)
    for start in starts:
        here, rest = slice(start, start + SOLVED_TOGETHER), slice(start + SOLVED_TOGETHER, None)
        v[here] = np.linalg.solve(root[here, here], v[here])
        v[rest] -= root[rest, here] @ v[here]
    for start in reversed(starts):
        here = slice(start, start + SOLVED_TOGETHER)
        v[here] = np.linalg.solve(root[here, here].T, v[here])
        v[:start] -= root[here, :start].T @ v[here]
    return v


def _tolerance(gram: Floats) -> float:
    """Return the share of an eigenvalue, or of a pivot, that rounding can make."""
    return 16 * len(gram) * EPSILON
