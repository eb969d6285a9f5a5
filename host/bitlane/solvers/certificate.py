"""Duality gaps: a proof of how far objectives are above their optimum, by one pass."""

from __future__ import annotations

import numpy as np

from bitlane.encoded.coded_rows import Floats

from .coded_objective import Chosen, CodedObjective


def duality_gaps(
    objective: CodedObjective, points: Floats, chosen: Chosen, slope_sums: Floats, slope_sizes: Floats
) -> tuple[Floats, Floats]:
    """Return the objectives of models and their duality gaps, which no optimum is further below than.

    The dual point is the slopes of the rows. So that their sum is 0, as an intercept without penalty needs, those above
    or those below 0 are made smaller; of squares, their mean is subtracted. With an L1 penalty alone all are made
    smaller, until no gradient is above it; the conjugate of the loss, which is convex and 0 at 0, is bounded for that.
    Hinge is taken without a smooth part, since its smoothed slopes are a dual point of it. The sums of a pass are
    rounded, to about 1e-7 of the objective.

    Parameters
    ----------
    objective : CodedObjective
    points : float64 array [chosen, n]
    chosen : int array [chosen]
    slope_sums, slope_sizes : float64 arrays [chosen]
        Sums of the slopes at these points, and of their absolute values.

    Returns
    -------
    objectives, gaps : float64 arrays [chosen]
        A gap is infinite for a model without a penalty.
    """
    models, totals = objective.models, objective.totals[chosen]
    scaled = np.ones((len(points), 3))
    scaled[:, 2] = 0.0
    if models.intercept and models.smooth_loss.margins:
        above, below = (slope_sizes + slope_sums) / 2, (slope_sizes - slope_sums) / 2
        least = np.minimum(above, below)
        scaled[:, 0] = least / np.maximum(above, 1e-300)
        scaled[:, 1] = least / np.maximum(below, 1e-300)
    elif models.intercept:
        scaled[:, 2] = -slope_sums / totals
    sums = objective.read(points, chosen, certificate=scaled)
    penalty, columns = objective.penalty.of(chosen), objective.rows.shape[1]
    slopes, conjugates = objective.slopes(sums, chosen), sums.sizes / totals
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(slopes == 0, np.inf, penalty.lasso / np.abs(slopes))[:, :columns].min(axis=1)
    bounded = np.where(models.alpha[chosen] * (1 - models.l1_ratio[chosen]) > 0, 1.0, np.minimum(ratios, 1.0))
    values = sums.losses / totals + penalty.total(points)
    duals = -bounded * conjugates - penalty.conjugate(slopes * bounded[:, None])
    return values, np.where(models.alpha[chosen] > 0, np.maximum(values - duals, 0.0), np.inf)


def bound_of_gradient(gradients: Floats, ridge: Floats, curvatures: Floats | float) -> Floats:
    """Return what models with an L2 penalty are above their optimum, at most, by their gradients alone: [...].

    An objective is strongly convex in all parameters but the intercept. What that adds is taken for ``g**2 / 2`` over
    the mean second derivative of the loss.

    Parameters
    ----------
    gradients : float64 array [..., n]
    ridge : float64 array [n]
        0 for the intercept, which is the last.
    curvatures : float64 array [...] or float
        Mean second derivatives of the loss.
    """
    if not ridge.any():
        return np.full(gradients.shape[:-1], np.inf)
    convexity = np.broadcast_to(ridge, gradients.shape).copy()
    if not ridge[-1]:
        convexity[..., -1] = curvatures
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(np.where(gradients == 0, 0.0, gradients**2 / convexity).sum(axis=-1) / 2)
