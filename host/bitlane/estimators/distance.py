"""How far a fit is from the optimum, or whether it is of any use at all, and the warnings of both."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bitlane.evaluation.metrics import constant_loss, losses_of
from bitlane.quantization.row_table import dense_rows
from bitlane.quantization.scaling import Floats, Matrix
from bitlane.support.user_warnings import warn_user
from bitlane.training.options import DECAY_EPOCHS, FEW_BITS
from bitlane.training.result import TrainingResult
from bitlane.training.suboptimality import suboptimality, warn_if_suboptimal

ROWS = 4096  # looked at, at equal distances
WORSE = 1.01  # ratio of the losses from which on a fit warns


def with_distance(result: TrainingResult, table: Matrix, targets: Floats, automatic: bool) -> TrainingResult:
    """Return the result with its suboptimality, and warn of one that is far from the optimum.

    Parameters
    ----------
    result : TrainingResult
    table : array or RowTable [rows, n]
    targets : float64 array [rows, targets]
    automatic : bool
        Whether the learning rate is the automatic one: with another one the user knows best what is missing.
    """
    result = replace(result, suboptimality=suboptimality(result, table, targets))
    if result.suboptimality is None:
        warn_if_useless(result, table, targets)
    elif automatic:
        warn_if_suboptimal(result)
    return result


def warn_if_useless(result: TrainingResult, table: Matrix, targets: Floats) -> None:
    """Warn of a fit of at least 20 epochs to equal class weights, whose loss is above that of a constant model.

    Double sampling estimates a slope without bias from squares alone. With hinge loss and 2 bits the estimate is so far
    off for margins near 1 that a long training can end above the loss that it began with.

    Parameters
    ----------
    result : TrainingResult
    table : array or RowTable [rows, n]
    targets : float64 array [rows, targets]
        -1 and 1 for losses of margins.
    """
    options = result.checkpoint().options
    if result.checkpoint().epoch < DECAY_EPOCHS or any(low != high for low, high in options.class_weight):
        return
    some = slice(None, None, max(1, len(table) // ROWS))
    X, y = dense_rows(table[some]), targets[some]
    coef, intercept = np.atleast_2d(result.coef), np.atleast_1d(result.intercept)
    settings = options.objective.loss, options.objective.epsilon
    for target, labels in enumerate(y.T):
        loss = float(losses_of(X, labels, coef[target : target + 1], intercept[target : target + 1], *settings)[0])
        constant = constant_loss(labels, *settings)
        if loss > WORSE * constant:
            advice = "use more bits (bits=8)" if options.precision.bits < FEW_BITS else "lower learning_rate"
            warn_user(f"the loss is {loss:.3g}; a model with one answer for all rows has {constant:.3g}: {advice}")
            return
