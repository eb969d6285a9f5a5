"""Losses, slopes and curvatures of scores in float64, for squares and log loss."""

from __future__ import annotations

import numpy as np

from bitlane.quantization.scaling import Floats


def losses_of(scores: Floats, labels: Floats, margins: bool) -> Floats:
    """Return the losses [r]: of log loss for labels -1 and 1 if `margins`, otherwise half of the squared residuals."""
    return np.logaddexp(0.0, -labels * scores) if margins else 0.5 * np.square(scores - labels)


def slopes_and_curvatures(scores: Floats, labels: Floats, margins: bool) -> tuple[Floats, Floats]:
    """Return the first and second derivatives [r] of `losses_of` by the scores [r]."""
    if not margins:
        return scores - labels, np.ones(len(scores))
    share = 1 / (1 + np.exp(np.clip(labels * scores, -50, 50)))
    return -labels * share, share * (1 - share)
