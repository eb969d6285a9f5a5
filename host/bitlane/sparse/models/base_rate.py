"""The base rate: what a model predicts of a row of which it knows nothing."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def base_score(loss: str, labels: NDArray[np.float32], weights: NDArray[np.float32] | None = None) -> float:
    """Return the score that fits labels best if all rows have the same.

    For log loss the log odds of their mean, which is estimated as ``(clicks + 1/2) / (rows + 1)``: finite if all
    labels are equal (Krichevsky and Trofimov, "The performance of universal encoding", 1981). For squared error the
    mean.

    Parameters
    ----------
    loss : {"log_loss", "squared_error"}
    labels : float32 [rows]
        At least one; 0 or 1 for log loss.
    weights : float32 [rows], optional
        How many rows each one counts as; not all 0.
    """
    if weights is None:
        total, rows = float(np.sum(labels, dtype=np.float64)), float(len(labels))
    else:
        total, rows = float(np.dot(labels.astype(np.float64), weights)), float(np.sum(weights, dtype=np.float64))
    if loss == "log_loss":
        return math.log((total + 0.5) / (rows - total + 0.5))
    return total / rows
