"""Least squares of a table that grows: the moments of pieces of its rows add up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bitlane.errors import DataError

from .elastic_net import elastic_net
from .least_squares import CenteredMoments
from .moments import Moments, float_moments
from .problem import Problem
from .rounding import product_excess
from .solution import Floats, Solution


def grown(earlier: Moments | None, X: Any, targets: Floats, weights: Floats | None) -> Moments:
    """Return the moments of earlier rows and of more, in float64.

    They are about the means of all rows, so that pieces that are far from each other cost no digits (T. Chan, G. Golub,
    R. LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979).

    Parameters
    ----------
    earlier : Moments or None
        From this function; None for the first rows.
    X : array, RowTable or EncodedTable [rows, m]
    targets : float64 array [rows, K]
    weights : float64 array [rows], optional

    Raises
    ------
    DataError
        Sums of squares of a column are above the largest float64.
    """
    shift = np.average(targets, axis=0, weights=weights)
    with np.errstate(over="ignore", invalid="ignore"):
        piece = float_moments(X, targets - shift, weights)
    piece = replace(piece, target_center=piece.target_center + shift)
    mean, target_mean = _means(piece)
    if earlier is None:
        return piece.about(mean, target_mean)
    share = piece.weight / (earlier.weight + piece.weight)
    center, target_center = earlier.center, earlier.target_center
    center, target_center = center + share * (mean - center), target_center + share * (target_mean - target_center)
    whole = earlier.about(center, target_center) + piece.about(center, target_center)
    if not (finite := np.isfinite(np.diag(whole.gram))).all():
        raise DataError(f"column {finite.argmin()} has a sum of squares above the largest float64: scale it")
    return whole


def solve_from_moments(problem: Problem, moments: Moments, bytes_read: int) -> Solution:
    """Return the solution of least squares on the rows of moments.

    Parameters
    ----------
    problem : Problem
        What is minimised; its rows do not count.
    moments : Moments
    bytes_read : int
        Of the rows of the moments.
    """
    centered = CenteredMoments.of(moments, problem.fit_intercept)
    if problem.lasso:
        found, over = elastic_net(centered, problem.lasso, problem.ridge, problem.tol / 10)
    else:
        found, inverse = centered.ridge(problem.ridge * moments.weight)
        over = product_excess(inverse, found, centered, single=False)
    if moments.rows <= found.rank + problem.fit_intercept and not problem.alpha:
        over = np.zeros_like(over)  # no row is left that the solution could miss
    objective = found.squared_errors / 2 + problem.penalty(found.coefficients)
    return Solution(
        "gram",
        found.coefficients.T,
        found.intercepts,
        objective,
        over * objective,
        over <= problem.tol,
        n_iter=1,
        passes=1,
        bytes_read=bytes_read,
    )


def _means(moments: Moments) -> tuple[Floats, Floats]:
    """Return the means of columns and targets."""
    return (
        moments.center + moments.sums / moments.weight,
        moments.target_center + moments.target_sums / moments.weight,
    )
