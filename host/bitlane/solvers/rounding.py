"""What the rounding of codes costs a solution: estimates from the codes alone."""

from __future__ import annotations

import numpy as np

from bitlane.encoded.coded_rows import Floats

from .coded_objective import CodedObjective
from .gram_inverse import GramInverse
from .least_squares import LeastSquares


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


def rounding_bound(objective: CodedObjective, points: Floats, values: Floats) -> Floats:
    """Return about how far models on codes are above the minimum on the values, at most: float64 [models].

    Rounding changes a score by a number of variance s2, the sum of ``(coefficient * unit)**2 / 12``. At any model that
    changes the mean loss by ``c s2 / 2``, with c the mean of the second derivative, and at random by about
    ``sqrt(g2 s2 / rows)``, with g2 the mean of the squared slope. The minimum is moved by twice that at most. Of log
    loss neither c nor g2 is above the loss.

    Parameters
    ----------
    objective : CodedObjective
    points : float64 array [models, n]
        Parameters in units of codes.
    values : float64 array [models]
        The objective there.
    """
    rows, columns = objective.rows.shape
    loss, spread = objective.smooth_loss.name, (points[:, :columns] ** 2).sum(axis=1) / 12
    ones = np.ones(len(values))
    bend = {"log_loss": np.minimum(0.25, values), "squared_hinge": 2 * ones}.get(loss, ones)
    slope = {"log_loss": values, "squared_error": 2 * values, "squared_hinge": 4 * values}.get(loss, ones)
    return np.asarray(bend * spread + 2 * np.sqrt(slope * spread / rows))
