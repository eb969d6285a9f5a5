"""What rounding costs a solution, of codes or of float32 sums: estimates without another read of all values."""

from __future__ import annotations

import numpy as np

from bitlane.encoded.coded_rows import Floats

from .coded_tables import CodedColumns
from .gram_inverse import GramInverse
from .least_squares import CenteredMoments, LeastSquares

# What sums of products of a piece of a table are off, over the root of the product of the two sums of squares.
SINGLE, DOUBLE = 2.0**-18, 2.0**-45
NOTHING = 1e-9  # of the squares of targets: an objective below it is rounding
MOST_INFLATED = 5e4  # variance of a coefficient, over what it were if its column depended on no other


def rounding_excess(
    inverse: GramInverse,
    solution: LeastSquares,
    centered: CenteredMoments,
    rows: CodedColumns,
    targets: Floats,
    weights: Floats | None,
) -> Floats:
    """Return about how far a solution on codes is above the minimum on the values, over the objective: [K].

    It is half of the square of the gradient of the values by the inverse of H, the Gram matrix with the penalty. Where
    `rows.errors` has all rows, it has that gradient. Otherwise a code is off a value by e, of mean square d. With D the
    diagonal of the d times the weight of the rows, v the coefficients and r the errors, the gradient has a part
    ``D v`` from the squares of e, or what two halves of the sample say of it where that is more; a random part of
    variance ``D mean(r**2)`` from the products of e and r; and what the sample leaves open of the means of e.

    Parameters
    ----------
    inverse : GramInverse
        Of the codes' Gram matrix with the penalty, centred if there is an intercept.
    solution : LeastSquares
        On the codes.
    centered : CenteredMoments
        Those of the codes, about the means of the values.
    rows : CodedColumns
        Codes that are off the values.
    targets : float64 array [rows, K]
    weights : float64 array [rows], optional
    """
    assert rows.errors is not None
    v, weight = solution.coefficients, centered.moments.weight
    first, second = rows.errors.gradients(solution, centered, targets, weights)
    over = np.einsum("jk,jk->k", first, inverse @ second)
    if not rows.errors.complete:
        variance = weight * rows.variances
        over = np.maximum(over, inverse.energy(variance[:, None] * v))
        over += solution.squared_errors * float(variance @ inverse.diagonal())
        over += weight * rows.errors.mean_variances(v, weights)
    objective = solution.squared_errors * weight + solution.alpha * (v**2).sum(axis=0)
    return np.asarray(over / np.maximum(objective, np.finfo(np.float64).tiny))


def product_excess(inverse: GramInverse, solution: LeastSquares, centered: CenteredMoments, single: bool) -> Floats:
    """Return about how far a solution from rounded products is above the minimum, over the objective: [K].

    With H the Gram matrix with the penalty, d**2 its diagonal before columns were centred, v the coefficients and y
    the targets, a product of columns j and k is off by about ``e d_j d_k``, with e `SINGLE` or `DOUBLE`. So the
    gradient is off by ``e d_j S``, with S**2 the sum of ``(d v)**2`` and y**2, and sums of squares by ``e S**2``. What
    the solution misses of its own equations is counted, too. An objective is at least `NOTHING` of y**2.

    Parameters
    ----------
    inverse : GramInverse
        Of the Gram matrix of the products with the penalty, centred if there is an intercept.
    solution : LeastSquares
    centered : CenteredMoments
        Those of the products.
    single : bool
        Whether these are float32. Then it is infinite where columns are combinations of others or nearly so, whose
        coefficients rounding would decide.
    """
    moments, v, e = centered.moments, solution.coefficients, SINGLE if single else DOUBLE
    squares = np.diag(moments.gram)
    inflation = squares * (inverse.diagonal() if single else 0.0)  # the square of DOUBLE makes nothing of it
    total = squares @ v**2 + moments.target_squares
    objective = solution.squared_errors * moments.weight + solution.alpha * (v**2).sum(axis=0)
    missed = inverse.energy(centered.residual(v, solution.alpha))
    least = np.maximum(NOTHING * moments.target_squares, np.finfo(np.float64).tiny)
    over = ((e**2 * inflation.sum() + e) * total + missed) / np.maximum(objective, least)
    seen = not single or (solution.rank == solution.varying and inflation.max(initial=0.0) <= MOST_INFLATED)
    return over if seen else np.full_like(over, np.inf)
