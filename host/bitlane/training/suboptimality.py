"""How far a trained model is from the optimum: measured by steps of Newton's method on some of its rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitlane.contract.formats import LABEL
from bitlane.quantization.row_table import dense_rows
from bitlane.quantization.scaling import Floats, Matrix
from bitlane.support.user_warnings import warn_user

from .conjugate_gradients import conjugate_gradients
from .options import DECAY_EPOCHS, FEW_BITS
from .result import TrainingResult
from .slopes import losses_of, slopes_and_curvatures

LEAST_ROWS, MOST_ROWS = 512, 4096  # of each half
VALUES = 1 << 17  # of each half, between these numbers of rows
STEPS = 3  # of Newton's method
ENOUGH = 20  # rows a weight that need no halves
ITERATIONS = 20  # of conjugate gradients for a step
TOLD = {"squared_error": 0.05, "log_loss": 0.1}  # share from which on a training with default rate warns
LABEL_UNITS = 2.0**LABEL.fraction


def suboptimality(result: TrainingResult, X: Matrix, y: Matrix) -> Floats | None:
    """Return the share of the loss of a constant model that more training would still take off, float64 [targets].

    From the trained model, or from 0, steps of Newton's method minimise the objective of some rows. Where these are
    less than 20 times the weights, such a step would only learn the rows by heart: then one half of them takes the
    steps, the loss of the other half shows what they gained, and the mean of both ways counts. For squared errors the
    result is what R squared may still rise by. Log loss of a target all of whose rows are on the right side, but for
    those of weight 0, counts as optimal.

    Parameters
    ----------
    result : TrainingResult
    X : array [rows, n]
        Up to 2,047 rows, of few columns up to 16,383, at equal distances, are looked at.
    y : array [rows, targets]

    Returns
    -------
    float64 array [targets] or None
        Only of squared errors and log loss without a threshold of weights and without bounds; otherwise None.
    """
    last = result.checkpoint()
    objective, scaling = last.options.objective, last.scaling
    if objective.loss not in TOLD or objective.penalty in ("l1", "elasticnet") or objective.bounds is not None:
        return None
    half = min(MOST_ROWS, max(LEAST_ROWS, VALUES // scaling.stored_features))
    some = slice(None, None, max(1, len(X) // (2 * half)))
    values, labels = scaling.values(dense_rows(X[some])), np.asarray(y)[some].reshape(-1, len(last.master))
    targets = labels if objective.margins else scaling.labels(labels) / LABEL_UNITS
    weights = result.stored_weights
    penalty = np.full(values.shape[1], objective.strength)
    if scaling.intercept_value:
        penalty[-1] = 0.0
    found = []
    for i, (target, start) in enumerate(zip(targets.T, weights, strict=True)):
        rows = np.where(labels[:, i] < 0, *last.options.class_weight_of(i))
        parts = [slice(None)] if len(values) >= ENOUGH * len(start) else [slice(0, None, 2), slice(1, None, 2)]
        cut = [_Rows(values[part], target[part], rows[part], objective.margins) for part in parts]
        gained = []
        for own, other in zip(cut, cut[::-1], strict=True):
            ends = [own.minimised(first, penalty) for first in (start, np.zeros_like(start))]
            better = min(ends, key=lambda end, own=own: own.objective(end, penalty))  # type: ignore[misc]
            gained.append((other.loss(start) - other.loss(better)) / max(other.constant_loss(), 1e-300))
        if objective.margins and (target * (values @ start) > 0)[rows > 0].all():
            gained = [0.0]
        found.append(max(0.0, float(np.mean(gained))))
    return np.array(found)


def warn_if_suboptimal(result: TrainingResult) -> None:
    """Warn of a training of at least 20 epochs that leaves much of the loss of a constant model."""
    if result.suboptimality is None:
        return
    share, last = float(result.suboptimality.max()), result.checkpoint()
    if share < TOLD[last.options.objective.loss] or last.epoch < DECAY_EPOCHS:
        return
    few = last.options.precision.bits < FEW_BITS
    warn_user(
        f"the model is not at its optimum: the loss may still fall by {share:.0%} of that of a constant model; use "
        + ("more bits (bits=8) or more epochs" if few else f"more epochs (epochs={5 * last.epoch})")
    )


@dataclass(frozen=True)
class _Rows:
    """Rows [r, s] with a target [r] and weights [r]; `margins` stands for log loss, otherwise squares."""

    values: Floats
    target: Floats
    rows: Floats
    margins: bool

    def loss(self, weights: Floats) -> float:
        """Return the mean loss: of log loss for labels -1 and 1, otherwise half of the squared residual."""
        score = self.values @ weights
        return float((self.rows * losses_of(score, self.target, self.margins)).mean())

    def constant_loss(self) -> float:
        """Return the least mean loss of a constant score."""
        total = max(float(self.rows.sum()), 1e-300)
        mean = float((self.rows * self.target).sum()) / total
        if not self.margins:
            return 0.5 * float((self.rows * np.square(self.target - mean)).mean())
        share = float(np.clip((1 + mean) / 2, 1e-12, 1 - 1e-12))
        return -float(self.rows.mean()) * float(share * np.log(share) + (1 - share) * np.log1p(-share))

    def objective(self, weights: Floats, penalty: Floats) -> float:
        """Return the mean loss with the penalty."""
        return self.loss(weights) + 0.5 * float((penalty * weights * weights).sum())

    def minimised(self, weights: Floats, penalty: Floats) -> Floats:
        """Return weights [s] after damped steps of Newton's method; each lowers the objective."""
        now = self.objective(weights, penalty)
        for _ in range(STEPS if self.margins else 1):
            score = self.values @ weights
            slope, curvature = slopes_and_curvatures(score, self.target, self.margins)
            gradient = self.values.T @ (self.rows * slope) / len(score) + penalty * weights
            step = conjugate_gradients(self.values, self.rows * curvature, penalty, gradient, ITERATIONS)
            size = 1.0
            while size > 0.01 and not self.objective(weights - size * step, penalty) < now:
                size /= 2
            if size <= 0.01:
                break
            weights = weights - size * step
            now = self.objective(weights, penalty)
        return weights
