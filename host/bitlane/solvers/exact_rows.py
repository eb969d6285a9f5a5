"""The center of bit centering: what exact rows say about models at a point."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitlane.encoded.coded_rows import Floats
from bitlane.errors import DataError
from bitlane.quantization.row_table import dense_pieces

from .coded_objective import Center, CodedObjective
from .passes import RowOutputs


def exact_center(objective: CodedObjective, points: Floats, exact: Any) -> Floats:
    """Read exact rows once, and let the parameters of all models count from a point.

    Parameters
    ----------
    objective : CodedObjective
        It gets the center; a pass takes what its gradient differs.
    points : float64 array [models, n]
    exact : array or RowTable [rows, m]

    Returns
    -------
    float64 array [models]
        Objectives on the exact rows.

    Raises
    ------
    DataError
        The shape is not that of the coded rows.
    """
    models, shape = objective.models, objective.rows.shape
    if tuple(exact.shape) != shape:
        raise DataError(f"the exact rows have shape {tuple(exact.shape)}, and the coded rows {shape}")
    everything = np.arange(len(models))
    coefficients, intercepts = objective.coefficients(points)
    targets, weights = models.arrays(everything)
    scores = np.empty((len(models), shape[0]), np.float32)
    losses, sums, gradients = np.zeros(len(models)), np.zeros(len(models)), np.zeros((len(models), shape[1]))
    first = 0
    for piece in dense_pieces(exact):
        values, span = np.asarray(piece, np.float64), slice(first, first + len(piece))
        z = values @ coefficients.T + intercepts
        scores[:, span] = z.T
        y = np.stack([target[span] for target in targets], axis=1).astype(np.float64)
        of_rows = 1.0 if weights is None else np.stack([weight[span] for weight in weights], axis=1)
        loss, slope = objective.smooth_loss.exact(z, y)
        losses += (of_rows * loss).sum(axis=0)
        sums += (of_rows * slope).sum(axis=0)
        gradients += (of_rows * slope).T @ values
        first += len(piece)
    gradients /= objective.units
    if models.intercept:
        gradients = np.c_[gradients - sums[:, None] * objective.middles, sums]
    objective.center = Center(points, list(scores), np.zeros_like(points))
    coded = objective.slopes(objective.read(np.zeros_like(points), everything, RowOutputs()), everything)
    objective.center = Center(points, list(scores), gradients / objective.totals[:, None] - coded)
    return np.asarray(losses / objective.totals + objective.penalty.total(points))
