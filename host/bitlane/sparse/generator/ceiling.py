"""How well clicks can be predicted at all: log loss and AUC of the true probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BINS = 1 << 16  # of the logits from -WIDEST to WIDEST
WIDEST = 16.0


@dataclass(frozen=True)
class Ceiling:
    """Metrics of the true probabilities.

    Attributes
    ----------
    rows, clicks : int
    log_loss : float
        Mean, in nats.
    auc : float or None
        From logits in bins of 0.0005; None without clicks, or without rows that are no clicks.
    """

    rows: int
    clicks: int
    log_loss: float
    auc: float | None


class CeilingCounter:
    """Counts, piece by piece, what `Ceiling` needs: the order of the pieces changes the log loss by rounding only."""

    def __init__(self) -> None:
        self._bins = np.zeros((2, BINS), np.int64)
        self._loss = 0.0

    def add(self, labels: NDArray[np.float32], probabilities: NDArray[np.float64]) -> None:
        """Count rows.

        Parameters
        ----------
        labels : float32 [rows]
        probabilities : float64 [rows]
            Within (0, 1).
        """
        clicked = labels > 0
        logits = np.log(probabilities) - np.log1p(-probabilities)
        self._loss -= float(np.log(np.where(clicked, probabilities, 1 - probabilities)).sum())
        bins = np.clip((logits + WIDEST) * (BINS / (2 * WIDEST)), 0, BINS - 1).astype(np.int64)
        for label in (0, 1):
            self._bins[label] += np.bincount(bins[clicked == bool(label)], minlength=BINS)

    def result(self) -> Ceiling:
        """Return the metrics of all rows so far."""
        negatives, positives = self._bins
        clicks, rows = int(positives.sum()), int(self._bins.sum())
        auc = None
        if 0 < clicks < rows:
            below = np.cumsum(negatives) - negatives
            auc = float((positives * (below + 0.5 * negatives)).sum() / (clicks * (rows - clicks)))
        return Ceiling(rows, clicks, self._loss / rows if rows else 0.0, auc)
