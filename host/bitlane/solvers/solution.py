"""What a solver returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Solution:
    """Linear models in user units, and what it took to find them.

    Attributes
    ----------
    solver : str
        The solver that was used.
    reason : str
        Why that one; empty for paths of penalties and for pieces of rows.
    coef : float64 array [models, n]
    intercept : float64 array [models]
        0 without an intercept.
    objective : float64 array [models]
        Weighted mean of the loss plus the penalty, over the rows as the solver read them.
    excess : float64 array [models]
        About what the objective is above its least value.
    converged : bool array [models]
        Whether that is within the tolerance.
    n_iter : int
    passes : int
        Reads of all rows.
    bytes_read : int
        Of these reads, as the rows are stored.
    """

    solver: str
    coef: Floats
    intercept: Floats
    objective: Floats
    excess: Floats
    converged: NDArray[np.bool_]
    n_iter: int
    passes: int
    bytes_read: int
    reason: str = ""
