"""Rows that models are fitted to and rows that they are judged by, and the losses on the latter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.quantization.row_table import dense_pieces

from .losses import SmoothLoss
from .problem import Problem
from .solution import Floats, Solution

PART_READS = 3  # parts of the rows a fold, up to which their sums are added up for the folds
CORNER = 1e-9  # of hinge: the width of its smooth part, which no loss shows


@dataclass(frozen=True, eq=False)
class Folds:
    """Splits of the rows.

    Attributes
    ----------
    fitted, held : bool arrays [rows, folds]
        The rows that a fold fits its models to, and those that it holds out.
    """

    fitted: NDArray[np.bool_]
    held: NDArray[np.bool_]

    def __len__(self) -> int:
        return int(self.fitted.shape[1])

    def parts(self) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        """Return the different [parts, 2 * folds] that rows have in `fitted` and `held`, and that of each row."""
        member = np.c_[self.fitted, self.held]
        packed = np.packbits(member, axis=1)
        words = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), np.uint8)
        words[:, : packed.shape[1]] = packed
        numbers = words.view(np.uint64)
        axis = None if numbers.shape[1] == 1 else 0  # integers sort quicker than rows of them
        _, first, which = np.unique(numbers, return_index=True, return_inverse=True, axis=axis)
        return member[first], which.reshape(-1)


@dataclass(frozen=True, eq=False)
class PathFit:
    """What cross-validation found.

    Attributes
    ----------
    losses : float64 array [alphas, folds]
        Mean losses of the held-out rows, and of the models of a fold.
    solutions : list of Solution
        Of all rows, for each penalty.
    coef : float64 array [alphas, folds, models, n]
        Of the models of the folds.
    intercept : float64 array [alphas, folds, models]
    unfinished : int
        Number of models of folds that did not converge.
    """

    losses: Floats
    solutions: list[Solution]
    coef: Floats
    intercept: Floats
    unfinished: int


def held_out_losses(problem: Problem, folds: Folds, coef: Floats, intercept: Floats) -> Floats:
    """Return the mean losses of models on the rows that their folds hold out, in one read of the table.

    Parameters
    ----------
    problem : Problem
    folds : Folds
    coef : float64 array [alphas, folds, models, n]
    intercept : float64 array [alphas, folds, models]

    Returns
    -------
    float64 array [alphas, folds, models]
        Weighted means, without the penalty.
    """
    loss, weights = SmoothLoss(problem.loss, CORNER), problem.weights
    alphas, count, models, n = coef.shape
    sums, totals = np.zeros(intercept.shape), np.zeros((count, models))
    matrices = [coef[:, fold].reshape(alphas * models, n).T for fold in range(count)]
    first = 0
    for piece in dense_pieces(problem.table):
        values, span = np.asarray(piece, np.float64), slice(first, first + len(piece))
        first += len(piece)
        for fold in range(count):
            chosen = folds.held[span, fold]
            y = problem.targets[span][chosen][:, None]
            of_rows = np.ones_like(y) if weights is None else weights[span][chosen][:, None]
            z = (values[chosen] @ matrices[fold]).reshape(-1, alphas, models) + intercept[:, fold]
            sums[:, fold] += (of_rows * loss.exact(z, y)[0]).sum(axis=0)
            totals[fold] += of_rows.sum(axis=(0, 1))
    return np.asarray(sums / totals)
