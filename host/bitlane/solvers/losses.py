"""The losses that the solvers bring to the optimum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitlane.encoded.coded_rows import Floats

KINDS = ("squared_error", "log_loss", "hinge", "squared_hinge")  # in the order of `enum loss` in passes.c


@dataclass(frozen=True)
class SmoothLoss:
    """A loss with a slope everywhere.

    Attributes
    ----------
    name : {"squared_error", "log_loss", "hinge", "squared_hinge"}
        Squared errors have the factor 1/2, squared hinge has none, as in scikit-learn.
    width : float, default=1.0
        Of hinge: the margins over which its slope rises from -1 to 0, around its jump at 1.
    """

    name: str
    width: float = 1.0

    @property
    def margins(self) -> bool:
        """Whether the labels are -1 and 1."""
        return self.name != "squared_error"

    def constant(self, means: Floats) -> Floats:
        """Return the best score without features, float64 [models], of models whose labels have these means."""
        if self.name == "log_loss":
            return np.arctanh(np.clip(means, -1 + 1e-12, 1 - 1e-12)) * 2
        return np.sign(means) if self.name == "hinge" else means

    def of_constants(self, scores: Floats, means: Floats) -> Floats:
        """Return the mean losses, float64 [models], of a score for all rows, of margins with labels of these means."""
        above, below = (self.exact(scores, np.full(len(means), sign))[0] for sign in (1.0, -1.0))
        return np.asarray(below + (above - below) * (1 + means) / 2)

    def exact(self, z: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Return losses and slopes of scores in float64."""
        if self.name == "squared_error":
            return 0.5 * (z - y) ** 2, z - y
        margin = y * z
        if self.name == "log_loss":
            e = np.exp(-np.abs(margin))
            return np.log1p(e) - np.minimum(margin, 0.0), -y * np.where(margin > 0, e, 1.0) / (1 + e)
        if self.name == "squared_hinge":
            lacking = np.maximum(1 - margin, 0.0)
            return lacking**2, -2 * y * lacking
        share = np.clip((1 - margin) / self.width + 0.5, 0.0, 1.0)
        return np.where(share < 1, 0.5 * self.width * share**2, 1 - margin), -y * share
