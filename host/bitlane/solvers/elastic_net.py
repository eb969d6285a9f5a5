"""Least squares with an L1 penalty, alone or beside L2, from moments: coordinate descent with a duality gap."""

from __future__ import annotations

import numpy as np

from bitlane.encoded.coded_rows import Floats

from .coordinates import least_model
from .least_squares import CenteredMoments, LeastSquares, squared_errors

ROUNDS = 50  # of coordinate descents, each from where the last one ended


def elastic_net(
    centered: CenteredMoments, lasso: float, ridge: float, tol: float, near: Floats | None = None
) -> tuple[LeastSquares, Floats]:
    """Minimise half of the mean squared error and ``lasso * |v|_1 + ridge / 2 * |v|**2`` for each target.

    Parameters
    ----------
    centered : CenteredMoments
    lasso, ridge : float
        0 or more; `lasso` above 0.
    tol : float
        Part of the objective by which it may still fall.
    near : float64 array [m, K], optional
        Coefficients near the solution.

    Returns
    -------
    solution : LeastSquares
    gaps : float64 array [K]
        Over the objective: how far the solution may be above the minimum. Above `tol` where rounding ends the search.
    """
    keep, weight = np.flatnonzero(~centered.constant), centered.moments.weight
    hessian = centered.gram[np.ix_(keep, keep)] / weight
    hessian[np.diag_indices_from(hessian)] += ridge
    v = np.zeros_like(centered.products) if near is None else near.copy()
    left, gaps = np.arange(v.shape[1]), np.full(v.shape[1], np.inf)
    for _ in range(ROUNDS):
        for k in left:
            slope = hessian @ v[keep, k] - centered.products[keep, k] / weight
            v[keep, k] += least_model(hessian, slope, v[keep, k], np.full(len(keep), lasso))
        before, gaps = gaps, relative_gaps(centered, v, lasso, ridge)
        left = np.flatnonzero((gaps > tol) & (gaps < before))
        if not left.size:
            break
    return centered.solution(v, ridge * weight, len(keep)), gaps


def relative_gaps(centered: CenteredMoments, v: Floats, lasso: float, ridge: float) -> Floats:
    """Return the duality gaps [K] of coefficients [m, K] over their objectives.

    L2 counts as rows ``sqrt(ridge)`` of the identity with targets of 0. The dual point is the residuals, made smaller
    until no correlation with a column is above `lasso`.
    """
    weight = centered.moments.weight
    squares = squared_errors(centered.moments, v, centered.target_mean - centered.mean @ v)
    with_residuals = (centered.products - centered.gram @ v) / weight
    all_squares = squares + ridge * (v**2).sum(axis=0)
    with_targets = squares + (v * with_residuals).sum(axis=0)
    largest = np.abs(with_residuals - ridge * v).max(axis=0)
    share = np.minimum(1.0, lasso / np.maximum(largest, 1e-300))
    objectives = all_squares / 2 + lasso * np.abs(v).sum(axis=0)
    gaps = objectives - share * with_targets + share**2 / 2 * all_squares
    return np.asarray(np.maximum(gaps, 0.0) / np.maximum(objectives, 1e-300))
