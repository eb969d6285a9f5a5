"""The losses of a training by their names in scikit-learn, with scikit-learn's definitions."""

from __future__ import annotations

import math

from bitlane.contract.further import FurtherLoss
from bitlane.contract.modes import Loss
from bitlane.quantization.scaling import Floats

LOSSES = {"squared_error": Loss.SQUARES, "hinge": Loss.HINGE, "log_loss": Loss.LOGISTIC}
FURTHER_LOSSES = {each.name.lower(): each for each in FurtherLoss if each != FurtherLoss.NONE}  # of software alone
LOSS_CHOICES = (*LOSSES, *FURTHER_LOSSES)
MARGIN_LOSSES = ("hinge", "log_loss", "squared_hinge", "modified_huber")  # labels are -1 and 1
EPSILON_LOSSES = ("huber", "epsilon_insensitive", "squared_epsilon_insensitive")
SQUARE_LOSSES = ("squared_error", "squared_epsilon_insensitive")  # of residuals, which labels far away dominate
LINEAR_LOSSES = ("epsilon_insensitive",)  # in units of the labels, not in their squares
BOUNDED_LOSSES = ("huber", "epsilon_insensitive")  # of residuals, whose slopes are bounded
# Twice the loss of the device: scikit-learn writes these squares without 1/2.
DOUBLED_LOSSES = ("squared_hinge", "modified_huber", "squared_epsilon_insensitive")
# The largest second derivative. That of hinge is the rise of the slope over one unit of margin; epsilon_insensitive has
# none, as its slope jumps.
CURVATURE = {
    **{name: 2.0 if name in DOUBLED_LOSSES else 1.0 for name in LOSS_CHOICES},
    **{"log_loss": 0.25, "epsilon_insensitive": math.inf},
}


def loss_factor(loss: str) -> float:
    """Return how many times the loss of the device a loss is."""
    return 2.0 if loss in DOUBLED_LOSSES else 1.0


def loss_unit(loss: str, label_unit: Floats) -> Floats:
    """Return what the loss that a device counts is multiplied by, in user units, for units of labels [targets].

    `label_unit` is 1 for margins. Of squared errors a device counts squared residuals without 1/2.
    """
    return loss_factor(loss) * label_unit ** (1 if loss in LINEAR_LOSSES else 2)
