"""What a solver is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .exact_sums import CURVES
from .solution import Floats

PENALTIES = (None, "l2", "l1", "elasticnet")


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise ``sum(weight * loss) / sum(weight) + alpha * R(coef)`` for each model.

    Attributes
    ----------
    table : array, RowTable or EncodedTable [rows, n]
    targets : float64 array [rows, models]
        For losses of margins -1 and 1.
    loss : {"squared_error", "log_loss", "hinge", "squared_hinge"}
        Squared errors with 1/2, squared hinge without, as in scikit-learn.
    alpha, l1_ratio : float
        R is ``l1_ratio * |coef|_1 + (1 - l1_ratio) / 2 * |coef|**2``, of coefficients in user units.
    weights : float64 array [rows, models], optional
        0 or more, above 0 for some row of each model.
    fit_intercept : bool
        The intercept is not penalised.
    bits : int
        Of a value of the rows that are made for the solver.
    tol : float
        Part of the objective by which it may still fall.
    max_iter : int
    near : pair of float64 arrays [models, n] and [models], optional
        Coefficients and intercepts from which a search starts, if they are better than the best constant models.
    """

    table: Any
    targets: Floats
    loss: str
    alpha: float = 0.0
    l1_ratio: float = 0.0
    weights: Floats | None = None
    fit_intercept: bool = True
    bits: int = 8
    tol: float = 1e-4
    max_iter: int = 1000
    near: tuple[Floats, Floats] | None = None

    @property
    def has_gram(self) -> bool:
        """Whether one Gram matrix has the solution."""
        return self.loss == "squared_error"

    @property
    def lasso(self) -> float:
        """Strength of the L1 part of the penalty."""
        return self.alpha * self.l1_ratio

    @property
    def ridge(self) -> float:
        """Strength of the L2 part of the penalty, which has 1/2."""
        return self.alpha * (1 - self.l1_ratio)

    def penalty(self, coefficients: Floats) -> Floats:
        """Return the penalty [K] of coefficients [m, K]."""
        return np.asarray(
            self.lasso * np.abs(coefficients).sum(axis=0) + self.ridge / 2 * (coefficients**2).sum(axis=0)
        )

    @property
    def has_curvature(self) -> bool:
        """Whether the loss has second derivatives and the penalty, too."""
        return self.loss in CURVES and not (self.alpha and self.l1_ratio)

    def by_weights(self) -> Iterator[tuple[NDArray[np.intp], Floats | None]]:
        """Yield the numbers of the models that share weights of rows, and these weights [rows]."""
        models = np.arange(self.targets.shape[1])
        if self.weights is None:
            yield models, None
            return
        left = models
        while len(left):
            first = self.weights[:, left[0]]
            same = (self.weights[:, left] == first[:, None]).all(axis=0)
            yield left[same], first
            left = left[~same]
