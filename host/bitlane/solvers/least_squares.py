"""Ridge regression from moments: coefficients, paths of penalties, errors on folds, and standard errors.

The objective is that of scikit-learn's `Ridge`: sum over rows of ``w (y - b - x.v)**2 + alpha |v|**2``, in user units,
with no penalty of the intercept b. One solution costs a Cholesky decomposition of the Gram matrix, or two where columns
depend on each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.coded_rows import Floats
from bitlane.errors import DataError

from .gram_inverse import EPSILON, GramInverse
from .moments import Moments

MOST_ROUNDED = 1e-12  # of the explained squares, that the solution with the least sum of squares may lose
SPECTRUM_PENALTIES = 8  # from here on, one eigendecomposition is quicker than a decomposition for each penalty
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
    moments : Moments
    intercept : bool
    gram : float64 array [m, m]
    products : float64 array [m, K]
    mean : float64 array [m]
    target_mean : float64 array [K]
    constant : bool array [m]
        Columns that do not vary, to rounding.
    """

    moments: Moments
    intercept: bool
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
            root = np.sqrt(moments.weight)
            gram = moments.gram - np.outer(moments.sums / root, moments.sums / root)
            products = moments.products - np.outer(moments.sums / root, moments.target_sums / root)
        else:
            mean, target_mean = np.zeros_like(moments.center), np.zeros_like(moments.target_center)
            about = moments.about(mean, target_mean)
            gram, products = about.gram, about.products
        rounding = 64 * EPSILON * (np.diag(moments.gram) + moments.weight * (mean - moments.center) ** 2)
        rounding += moments.weight * (4 * EPSILON * mean) ** 2  # of the means of pieces
        return CenteredMoments(moments, intercept, gram, products, mean, target_mean, np.diag(gram) <= rounding)

    def inverse(self, alpha: float) -> GramInverse:
        """Return the pseudo-inverse of the Gram matrix with a penalty, 0 for columns that do not vary."""
        return GramInverse(self.gram, alpha, self.constant)

    def ridge(self, alpha: float) -> tuple[LeastSquares, GramInverse]:
        """Return the solution with a penalty, and what solved its equations."""
        inverse = self.inverse(alpha)
        v = inverse @ self.products
        # In far different units the directions that change no prediction are rounded: some zeros are better then.
        rounded = inverse.energy(self.residual(v, alpha)) > MOST_ROUNDED * inverse.energy(self.products)
        found = self.solution(v, alpha, inverse.rank)
        if rounded.any():
            basic = self.solution(inverse.basic(self.products), alpha, inverse.rank)
            rounded &= self._objectives(basic) < self._objectives(found)
            found = self.solution(np.where(rounded, basic.coefficients, v), alpha, inverse.rank)
        return found, inverse

    def _objectives(self, found: LeastSquares) -> Floats:
        penalty = found.alpha * (found.coefficients**2).sum(axis=0)
        return np.asarray(found.squared_errors * self.moments.weight + penalty)

    def residual(self, v: Floats, alpha: float) -> Floats:
        """Return what the normal equations miss at coefficients [m, K]: half of the negative gradient."""
        return np.asarray(self.products - self.gram @ v - alpha * v)

    def solution(self, v: Floats, alpha: float, rank: int) -> LeastSquares:
        """Return coefficients [m, K] with what belongs to them."""
        intercepts = self.target_mean - self.mean @ v
        errors = squared_errors(self.moments, v, intercepts)
        return LeastSquares(v, intercepts, alpha, errors, rank, int(np.count_nonzero(~self.constant)))


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
    return _by_spectrum(centered, alphas) or [centered.ridge(alpha)[0] for alpha in alphas]


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

    Each fold is left out once: the moments of the others add up.

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
    errors = []
    for left, fold in enumerate(folds):
        others = [*folds[:left], *folds[left + 1 :]]
        path = ridge_path(sum(others[1:], others[0]), alphas, intercept)
        errors.append([squared_errors(fold, each.coefficients, each.intercepts) for each in path])
    return np.array(errors)


def standard_errors(moments: Moments, intercept: bool = True) -> tuple[Floats, Floats]:
    """Return the standard errors of coefficients and intercepts of a fit without penalty, for normal noise.

    With a design X of full rank, errors e and rows beyond rank p they are the roots of the diagonal of
    ``inv(X'X) e'e / (rows - p)`` (W. Greene, Econometric Analysis, equation 4-18).

    Parameters
    ----------
    moments : Moments
        Weights are numbers of equal rows.
    intercept : bool, default=True
        Whether the models have one.

    Returns
    -------
    coefficients : float64 array [m, K]
        0 for columns that do not vary.
    intercepts : float64 array [K]
        0 without an intercept.

    Raises
    ------
    DataError
        Columns depend on each other, or there are too few rows.
    """
    centered = CenteredMoments.of(moments, intercept)
    solution, inverse = centered.ridge(0.0)
    if solution.rank < solution.varying:
        raise DataError(
            f"standard errors need columns that are no combinations of others: {solution.varying} vary, "
            f"with a rank of {solution.rank}"
        )
    freedom = moments.weight - solution.rank - intercept
    if freedom <= 0:
        raise DataError(f"standard errors need more rows than coefficients; got {moments.weight:g} rows")
    variance = solution.squared_errors * moments.weight / freedom
    of_mean = 1 / moments.weight + centered.mean @ (inverse @ centered.mean[:, None])[:, 0] if intercept else 0.0
    return np.sqrt(inverse.diagonal()[:, None] * variance), np.sqrt(variance * of_mean)


def _by_spectrum(centered: CenteredMoments, alphas: Sequence[float]) -> list[LeastSquares]:
    """Return the solution for each of many penalties by one eigendecomposition; none where that is not accurate."""
    if len(alphas) < SPECTRUM_PENALTIES:
        return []
    keep = ~centered.constant
    eigenvalues, some = np.linalg.eigh(centered.gram[np.ix_(keep, keep)])
    largest = eigenvalues.max(initial=0.0)
    if min(alphas) <= SPECTRUM_RANGE * largest:
        return []
    rank = int(np.count_nonzero(eigenvalues > 16 * len(some) * EPSILON * largest))
    vectors = np.zeros((len(keep), len(some)))
    vectors[keep] = some
    turned, positive = some.T @ centered.products[keep], np.maximum(eigenvalues, 0.0)[:, None]
    return [centered.solution(vectors @ (turned / (positive + alpha)), alpha, rank) for alpha in alphas]
