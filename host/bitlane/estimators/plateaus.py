"""What a fit looks at to end at a plateau: the losses of its epochs, or the scores of rows that are held out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from bitlane.quantization.scaling import Floats
from bitlane.training.losses import LINEAR_LOSSES
from bitlane.training.objective import Objective
from bitlane.training.result import TrainingResult
from bitlane.training.stopping import Plateau, PlateauEnding

from .fit_rows import FitRows, HeldOut

Score = Callable[[Floats, Floats, "Floats | None"], float]


def plateau_ending(
    rows: FitRows, objective: Objective, tol: float | None, patience: int, cools: bool, score: Score
) -> PlateauEnding | None:
    """Return what ends a fit before its last epoch; None without `tol` and held-out rows.

    Parameters
    ----------
    rows : FitRows
    objective : Objective
        Regressions: a loss counts in units of the variance of y, a linear one in units of its standard deviation.
    tol : float or None
        Improvement below which an epoch counts as none; None is 0 for held-out rows.
    patience : int
        Such epochs that make a plateau.
    cools : bool
        See `PlateauEnding`.
    score : callable
        Called as ``score(prediction, targets, weights)`` with arrays [rows, targets] of held-out rows, and weights
        [rows] or None.
    """
    if rows.held is None and tol is None:
        return None
    plateau = Plateau(tol or 0.0, patience)
    if rows.held is not None:
        return PlateauEnding(plateau, partial(_negative_scores, held=rows.held, score=score), cools)
    unit = np.ones(rows.targets.shape[1]) if objective.margins else rows.targets.var(axis=0)
    unit = np.sqrt(unit) if objective.loss in LINEAR_LOSSES else unit
    return PlateauEnding(plateau, partial(_relative_losses, unit=np.where(unit > 0, unit, 1.0)), cools)


def _relative_losses(run: TrainingResult, unit: Floats) -> Floats:
    """Return the mean over targets of the losses of each epoch, [epochs], in a unit of each target."""
    means: Floats = (run.loss.reshape(len(run.loss), -1) / unit).mean(axis=1)
    return means


def _negative_scores(run: TrainingResult, held: HeldOut, score: Score) -> Floats:
    """Return the scores of the models after each epoch on held-out rows, [epochs], with their signs changed."""
    targets, n = held.targets.shape[1], held.table.shape[1]
    coefs, intercepts = run.models()
    models = zip(coefs.reshape(-1, targets, n), intercepts.reshape(-1, targets), strict=True)
    predictions = (np.asarray(held.table @ coef.T) + intercept for coef, intercept in models)
    return np.array([-score(prediction, held.targets, held.weights) for prediction in predictions])
