"""Five levels for the weights of a network, and rounding to them (ZipML, section 3.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.levels import optimal_levels
from bitlane.quantization.scaling import Floats

LEVELS = 5
CHOICES = ("full", "uniform", "optimal")

Weights = NDArray[np.floating[Any]]


def weight_levels(weights: Weights, choice: str) -> Floats:
    """Return five ascending levels, float64 [5], from the smallest to the largest weight.

    Parameters
    ----------
    weights : ndarray
        The weights. Equal weights have five equal levels.
    choice : {"uniform", "optimal"}
        Evenly spaced levels (XNOR5), or levels of least variance (Optimal5).
    """
    if choice == "uniform":
        return np.linspace(float(weights.min()), float(weights.max()), LEVELS)
    optimal = optimal_levels(weights.ravel(), LEVELS - 1)
    return np.concatenate([optimal, np.full(LEVELS - len(optimal), optimal[-1])])


def on_levels(weights: Weights, choice: str) -> NDArray[np.float32]:
    """Round each weight to its nearest level, ties up; "full" returns the weights unchanged."""
    if choice == "full":
        return np.asarray(weights, np.float32)
    levels = weight_levels(weights, choice)
    middles = 0.5 * (levels[1:] + levels[:-1])
    return levels[np.searchsorted(middles, weights, side="right")].astype(np.float32)
