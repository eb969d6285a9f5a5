"""Weights of rows, as a model takes them: their checks, rows of weight 0, and steps that are too long."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.support.user_warnings import warn_user

LONGEST_STEP = 1.0  # weight times the learning rate of SGD, beyond which a step may overshoot

Floats = NDArray[np.float32]


def check_weights(weights: Floats | None) -> None:
    """Check that weights are finite and at least 0.

    Raises
    ------
    DataError
        Naming the first row that fails.
    """
    if weights is not None and not (good := np.isfinite(weights) & (weights >= 0)).all():
        row = int(np.argmin(good))
        raise DataError(f"weight of row {row} must be finite and at least 0; got {weights[row]}")


def learn_counted(batch: Batch, learn: Callable[[Batch], Floats], scores: Callable[[Batch], Floats]) -> Floats:
    """Learn the rows of a batch whose weight is above 0: the others do not exist for the model.

    Parameters
    ----------
    batch : Batch
    learn : callable
        Learns a batch and returns its scores before.
    scores : callable
        Returns the scores of a batch.

    Returns
    -------
    scores : float32 [rows]
        Before any row was learned, for rows of weight 0.
    """
    if batch.weights is None or batch.weights.all():
        return learn(batch)
    counted = batch.weights > 0
    result = np.empty(batch.rows, np.float32)
    result[~counted] = scores(batch.take(np.flatnonzero(~counted)))
    result[counted] = learn(batch.take(np.flatnonzero(counted)))
    return result


def warn_of_long_steps(spec: ModelSpec, weights: Floats | None) -> None:
    """Warn of a weight with which one step of SGD may overshoot; those of FTRL and AdaGrad are bounded."""
    if weights is None or not len(weights):
        return
    rates = [each.learning_rate for each in (spec.linear, spec.factors, spec.dense) if isinstance(each, SGD)]
    if not rates:
        return
    row = int(np.argmax(weights))
    if weights[row] * max(rates) > LONGEST_STEP:
        warn_user(
            f"a row has weight {weights[row]:g}: its step of sgd with learning rate {max(rates):g} may overshoot; "
            f"divide the weights by their mean, such as {weights.mean(dtype=np.float64):.3g}, or lower the rate"
        )
