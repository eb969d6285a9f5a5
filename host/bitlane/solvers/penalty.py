"""The penalty of many models, in units of codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.coded_rows import Floats


@dataclass(frozen=True, eq=False)
class Penalty:
    """``sum(lasso * |v| + ridge / 2 * v**2)`` of parameters v; those without a penalty have 0.

    Attributes
    ----------
    ridge, lasso : float64 arrays [models, n]
    """

    ridge: Floats
    lasso: Floats

    @property
    def smooth(self) -> bool:
        """Whether there is no L1 part."""
        return not self.lasso.any()

    def of(self, chosen: NDArray[np.intp]) -> Penalty:
        """Return the penalty of some models."""
        return Penalty(self.ridge[chosen], self.lasso[chosen])

    def total(self, points: Floats) -> Floats:
        """Return the penalty of each model, float64 [models]."""
        return np.asarray((self.lasso * np.abs(points) + 0.5 * self.ridge * points**2).sum(axis=1))

    def residual(self, points: Floats, gradients: Floats) -> Floats:
        """Return the least subgradient of the loss with the penalty, float64 [models, n]: 0 at the optimum.

        `gradients` are those of the loss alone.
        """
        slopes = gradients + self.ridge * points
        at_zero = np.sign(slopes) * np.maximum(np.abs(slopes) - self.lasso, 0.0)
        return np.where(points == 0, at_zero, slopes + self.lasso * np.sign(points))

    def conjugate(self, slopes: Floats) -> Floats:
        """Return the conjugate of the penalty, float64 [models]; parameters without a penalty do not count.

        Without a ridge it is infinite, unless no slope is above the L1 part.
        """
        beyond = np.maximum(np.abs(slopes) - self.lasso, 0.0)
        penalized = (self.ridge > 0) | (self.lasso > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(beyond > 0, beyond**2 / (2 * self.ridge), 0.0)
        return np.asarray(np.where(penalized, terms, 0.0).sum(axis=1))
