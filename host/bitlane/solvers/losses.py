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

    def constant(self, totals: Floats, means: Floats) -> tuple[Floats, Floats]:
        """Return the best score without features and its mean loss, float64 [models].

        Parameters
        ----------
        totals : float64 array [models, 2]
            Sums of the weights of rows, and of the squares of their labels.
        means : float64 array [models]
            Of the labels.
        """
        if self.name == "squared_error":
            return means, 0.5 * np.maximum(totals[:, 1] / totals[:, 0] - means**2, 0.0)
        share = np.clip((1 + means) / 2, 1e-12, 1 - 1e-12)
        if self.name == "log_loss":
            return np.log(share / (1 - share)), -share * np.log(share) - (1 - share) * np.log1p(-share)
        if self.name == "squared_hinge":
            return means, 4 * share * (1 - share)
        return np.sign(means), 2 * np.minimum(share, 1 - share)
