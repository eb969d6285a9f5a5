"""What rounding costs a solution, of codes or of float32 sums: estimates without another read of the values."""

from __future__ import annotations

import numpy as np

from bitlane.encoded.coded_rows import Floats

from .gram_inverse import GramInverse
from .least_squares import CenteredMoments, LeastSquares

# What sums of products of a piece of a table are off, over the root of the product of the two sums of squares.
SINGLE, DOUBLE = 2.0**-18, 2.0**-47
NOTHING = 1e-9  # of the squares of targets: an objective below it is rounding
MOST_INFLATED = 5e4  # variance of a coefficient, over what it were if its column depended on no other


def rounding_excess(inverse: GramInverse, solution: LeastSquares, weight: float, variances: Floats) -> Floats:
    """Return about how far a solution on codes is above the minimum on the values, over the objective: [K].

    A code is off a value by e, of mean square d, without correlation to other columns. With H the Gram matrix with the
    penalty, D the diagonal of the d times the weight of the rows, v the coefficients and r the errors, the gradient at
    v on the values is ``D v`` from the squares of e and a random part of variance ``D mean(r**2)`` from the products
    of e and r. The excess is half of the gradient's square by the inverse of H.

    Parameters
    ----------
    inverse : GramInverse
        Of the codes' Gram matrix with the penalty, centred if there is an intercept.
    solution : LeastSquares
        On the codes.
    weight : float
        Of all rows.
    variances : float64 array [m]
        The d, in squares of user units.
    """
    v, variance = solution.coefficients, weight * variances
    systematic = np.einsum("jk,jk->k", variance[:, None] * v, inverse @ (variance[:, None] * v))
    random = solution.squared_errors * float(variance @ inverse.diagonal())
    objective = solution.squared_errors * weight + solution.alpha * (v**2).sum(axis=0)
    return np.asarray((systematic + random) / np.maximum(objective, np.finfo(np.float64).tiny))


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
