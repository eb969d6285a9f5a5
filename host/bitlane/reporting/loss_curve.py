"""The loss curve of a training on several processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bitlane.support.optional import require_extra

_COLOUR, _FAINT = "#0072B2", "#B8D4E8"  # Okabe and Ito's blue, and a tint of it


def draw_losses(losses: Sequence[float | None], first: int, path: Path, title: str) -> Path:
    """Draw the loss of each step in nats, and its running mean, as a PNG, and return `path`.

    Parameters
    ----------
    losses : sequence of float or None
        None for a loss that was not finite.
    first : int
        Number of earlier steps.
    path : Path
    title : str
    """
    matplotlib = require_extra("matplotlib", "plotting")
    matplotlib.use("Agg")
    pyplot = require_extra("matplotlib.pyplot", "plotting")
    values = np.array([np.nan if loss is None else loss for loss in losses], np.float64)
    steps = first + 1 + np.arange(len(values))
    figure, axes = pyplot.subplots(figsize=(9.0, 4.8), dpi=150, layout="constrained")
    try:
        axes.plot(steps, values, color=_FAINT, linewidth=0.8, label="each step")
        axes.plot(steps, running_mean(values), color=_COLOUR, linewidth=1.6, label="running mean")
        axes.set_xlabel("step")
        axes.set_ylabel("training loss (nats)")
        axes.set_title(title, loc="left", fontsize=11, pad=12)
        axes.legend(frameon=False)
        axes.grid(True, color="#E6E6E6", linewidth=0.7)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        figure.savefig(path, format="png")
    finally:
        pyplot.close(figure)
    return path


def running_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of each value and the finite values before it, over the last twentieth of all values."""
    width = max(1, len(values) // 20)
    there = np.isfinite(values)
    sums = np.concatenate([np.zeros(1), np.cumsum(np.where(there, values, 0.0))])
    counts = np.concatenate([np.zeros(1), np.cumsum(there)])
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(0, ends - width)
    with np.errstate(invalid="ignore"):
        means: NDArray[np.float64] = (sums[ends] - sums[begins]) / (counts[ends] - counts[begins])
    return means
