"""What the rounding of codes costs a least-squares solution: an estimate, from the moments of the codes alone."""

from __future__ import annotations

import numpy as np

from bitlane.encoded.coded_rows import Floats

from .least_squares import CenteredMoments, LeastSquares
from .moments import Moments


def rounding_excess(moments: Moments, solution: LeastSquares, unit: Floats) -> Floats:
    """Return about how far a solution on codes is above the minimum on the values, over the objective: [K].

    The middle of an interval is off a value by e, which is spread evenly over the interval: its variance is
    d = unit**2 / 12, without correlation to other columns. With H the Gram matrix with the penalty, D the diagonal of
    the d times the weight of the rows, v the coefficients and r the errors, the gradient at v on the values is
    ``D v`` from the squares of e and a random part of variance ``D mean(r**2)`` from the products of e and r. The
    excess is half of the gradient's square by the inverse of H.

    Parameters
    ----------
    moments : Moments
        Of the codes, with columns [m].
    solution : LeastSquares
        Of `ridge` with these moments.
    unit : float64 array [m]
        Width of an interval, in user units.
    """
    centered = CenteredMoments.of(moments, True)
    inverse = centered.inverse(solution.alpha)
    v, variance = solution.coefficients, moments.weight * unit**2 / 12
    systematic = np.einsum("jk,jk->k", variance[:, None] * v, inverse @ (variance[:, None] * v))
    random = solution.squared_errors * float(variance @ np.diag(inverse))
    objective = solution.squared_errors * moments.weight + solution.alpha * (v**2).sum(axis=0)
    return np.asarray((systematic + random) / np.maximum(objective, np.finfo(np.float64).tiny))
