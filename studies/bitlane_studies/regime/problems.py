"""What all programs of a cell minimise: mean losses of a standardised table, plus penalties."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
BLOCK_VALUES = 1 << 22  # of the rows that are converted to float64 at a time


@dataclass(frozen=True, eq=False)
class FitProblem:
    """A table, and the models that are fitted to it: one for each fold, penalty and target.

    Model (f, a, k) minimises the mean over the rows outside fold f of the loss of target k, plus
    ``alphas[a] / 2 * sum(coef**2)``, or ``alphas[a] * sum(abs(coef))`` for l1. The intercept is free.

    Attributes
    ----------
    X : float32 array [rows, n]
        Standardised columns; see `standardised`.
    y : float32 array [rows, targets]
        -1 and 1 for log loss and hinge; one column a class.
    loss : {"squared_error", "log_loss", "hinge"}
        Squared errors are halved.
    penalty : {"l2", "l1"}
    alphas : tuple of float
        By default 1 / rows: scikit-learn's default of Ridge, LogisticRegression and LinearSVC behind a StandardScaler.
    folds : int, default=1
        Equal pieces of consecutive rows, each left out by its models; 1 leaves out none.
    sparse : bool
        Most values are 0: programs that gain from it get the table as CSR.
    """

    X: Floats
    y: Floats
    loss: str
    penalty: str = "l2"
    alphas: tuple[float, ...] = ()
    folds: int = 1
    sparse: bool = False

    def __post_init__(self) -> None:
        if not self.alphas:
            object.__setattr__(self, "alphas", (1 / len(self.X),))

    @property
    def shape_of_models(self) -> tuple[int, int, int]:
        """Folds, penalties, targets."""
        return self.folds, len(self.alphas), self.y.shape[1]

    def blocks(self) -> Iterator[tuple[slice, Doubles]]:
        """Yield consecutive rows as float64, and where they are."""
        step = max(1, BLOCK_VALUES // self.X.shape[1])
        for first in range(0, len(self.X), step):
            some = slice(first, min(first + step, len(self.X)))
            yield some, self.X[some].astype(np.float64)

    def kept(self, fold: int) -> NDArray[np.bool_]:
        """Return a mask of the rows that the models of a fold are fitted to."""
        mask = np.ones(len(self.X), bool)
        if self.folds > 1:
            edges = np.linspace(0, len(mask), self.folds + 1).astype(int)
            mask[edges[fold] : edges[fold + 1]] = False
        return mask

    def objective(self, coef: Doubles, intercept: Doubles) -> float:
        """Return the mean of the models' objectives.

        Parameters
        ----------
        coef : array [folds, penalties, targets, n]
        intercept : array [folds, penalties, targets]
        """
        coef = np.asarray(coef, np.float64).reshape(*self.shape_of_models, -1)
        intercept = np.asarray(intercept, np.float64).reshape(self.shape_of_models)
        kept = np.stack([self.kept(fold) for fold in range(self.folds)], 1)
        sums = np.zeros(self.shape_of_models)
        for some, block in self.blocks():
            scores = (block @ coef.reshape(-1, block.shape[1]).T).reshape(-1, *self.shape_of_models) + intercept
            losses = losses_of(self.loss, scores, self.y[some, None, None, :].astype(np.float64))
            sums += (losses * kept[some][:, :, None, None]).sum(0)
        size = np.abs(coef).sum(-1) if self.penalty == "l1" else (coef**2).sum(-1) / 2
        means = sums / kept.sum(0)[:, None, None] + np.asarray(self.alphas)[:, None] * size
        return float(means.mean())


def losses_of(loss: str, scores: Doubles, y: Doubles) -> Doubles:
    """Return the loss of each score."""
    if loss == "squared_error":
        return np.asarray((scores - y) ** 2 / 2)
    if loss == "log_loss":
        return np.asarray(np.logaddexp(0.0, -y * scores))
    return np.maximum(0.0, 1.0 - y * scores)


def standardise(X: Floats, shifted: bool) -> None:
    """Divide the columns of X by their standard deviations, and with `shifted` subtract the means before; in place.

    Constant columns become 0 with `shifted`, and stay as they are without.
    """
    step = max(1, BLOCK_VALUES // X.shape[1])
    starts = range(0, len(X), step)
    mean = sum(X[first : first + step].sum(0, dtype=np.float64) for first in starts) / len(X)
    squares = sum(((X[first : first + step] - mean) ** 2).sum(0) for first in starts) / len(X)
    spread = np.sqrt(np.where(squares > 1e-14 * mean**2, squares, 1))
    for first in starts:
        block = X[first : first + step]
        block[:] = (block - mean * shifted) / spread


def l1_strength(X: Floats, y: Floats, share: float) -> float:
    """Return `share` of the least l1 penalty at which all coefficients are 0.

    For squares, and for log loss with labels -1 and 1 (whose slope at the constant model is half of y minus its mean).
    """
    residual = y[:, 0] - y[:, 0].mean(dtype=np.float64)
    slope = residual @ X.astype(np.float64) / len(X)
    halved = 0.5 if set(np.unique(y)) == {-1.0, 1.0} else 1.0
    return float(share * halved * np.abs(slope).max())
