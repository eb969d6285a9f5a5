"""Many linear models over the same rows: targets, classes, folds and penalties side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.encoded.coded_rows import Floats
from bitlane.errors import DataError

from .losses import KINDS, SmoothLoss
from .reference_pass import Singles


@dataclass(frozen=True, eq=False)
class LinearModels:
    """What each of many models minimises: ``sum(weight * loss) / sum(weight) + alpha * R(w)``.

    R(w) is ``l1_ratio * |w|_1 + (1 - l1_ratio) / 2 * |w|**2`` of the coefficients of the values in user units; the
    intercept has no penalty.

    Attributes
    ----------
    smooth_loss : SmoothLoss
    targets : float32 array [targets, rows]
    row_weights : float32 array [masks, rows] or None
    target_of, weights_of : int arrays [models]
        Which target and which weights of rows a model has.
    alpha, l1_ratio : float64 arrays [models]
    intercept : bool
    near : pair of float64 arrays [models, m] and [models], optional
        Coefficients and intercepts from which a search starts, if they are better than the best constant models.
    """

    smooth_loss: SmoothLoss
    targets: Singles
    row_weights: Singles | None
    target_of: NDArray[np.intp]
    weights_of: NDArray[np.intp]
    alpha: Floats
    l1_ratio: Floats
    intercept: bool
    near: tuple[Floats, Floats] | None = None

    def __len__(self) -> int:
        return len(self.alpha)

    def totals(self) -> Floats:
        """Return the sums of the weights of the rows, float64 [models]."""
        if self.row_weights is None:
            return np.full(len(self), float(self.targets.shape[1]))
        return np.asarray(self.row_weights.sum(axis=1, dtype=np.float64)[self.weights_of])

    def label_means(self, power: int = 1) -> Floats:
        """Return the weighted means of a power of the labels, float64 [models]."""
        pairs, which = np.unique(np.c_[self.target_of, self.weights_of], axis=0, return_inverse=True)
        found = np.empty(len(pairs))
        for at, (target, mask) in enumerate(pairs):
            weights = None if self.row_weights is None else self.row_weights[mask].astype(np.float64)
            found[at] = np.average(self.targets[target].astype(np.float64) ** power, weights=weights)
        return found[which.reshape(-1)]

    def constants(self) -> Floats:
        """Return the scores of the best constant models, float64 [models]; 0 without an intercept."""
        return self.smooth_loss.constant(self.label_means()) if self.intercept else np.zeros(len(self))

    def constant_losses(self, smooth_loss: SmoothLoss) -> Floats:
        """Return the mean losses of the best constant models, float64 [models]."""
        scores, means = self.constants(), self.label_means()
        if smooth_loss.margins:
            return smooth_loss.of_constants(scores, means)
        return np.asarray(self.label_means(2) / 2 - scores * means + scores**2 / 2)

    def arrays(self, chosen: NDArray[np.intp]) -> tuple[list[Singles], list[Singles] | None]:
        """Return targets and weights of rows of some models."""
        weights = None if self.row_weights is None else [self.row_weights[i] for i in self.weights_of[chosen]]
        return [self.targets[i] for i in self.target_of[chosen]], weights


def linear_models(
    targets: ArrayLike,
    loss: str = "log_loss",
    alpha: ArrayLike = 1e-4,
    l1_ratio: ArrayLike = 0.0,
    row_weights: ArrayLike | None = None,
    target_of: ArrayLike | None = None,
    weights_of: ArrayLike | None = None,
    fit_intercept: bool = True,
) -> LinearModels:
    """Check and broadcast what many models minimise.

    The number of models is that of the longest of `alpha`, `l1_ratio`, `target_of`, `weights_of` and, without
    `target_of`, the number of targets; the others hold for all.

    Parameters
    ----------
    targets : array [rows] or [rows, targets]
        Labels -1 and 1, or numbers for squared errors.
    loss : {"log_loss", "squared_error", "hinge", "squared_hinge"}
    alpha, l1_ratio : float or float arrays [models]
        Strength of the penalty, 0 or more, and the share of its L1 part, 0 to 1.
    row_weights : array [rows] or [rows, masks], optional
        0 or more; weights of 0 and 1 are folds.
    target_of, weights_of : int arrays [models], optional
        Columns of `targets` and `row_weights` of each model; by default its own, or the only one.
    fit_intercept : bool, default=True

    Returns
    -------
    LinearModels

    Raises
    ------
    DataError
        A value is illegal, or a model has no row with a weight above 0.
    """
    if loss not in KINDS:
        raise DataError(f"loss={loss!r}: choose {', '.join(map(repr, KINDS))}")
    columns = _of_rows("targets", targets)
    masks = None if row_weights is None else _of_rows("row_weights", row_weights)
    if masks is not None and masks.shape[1] != columns.shape[1]:
        raise DataError(f"row_weights has {masks.shape[1]} rows and targets {columns.shape[1]}: give one a row")
    if masks is not None and masks.min() < 0:
        raise DataError(f"row_weights has {masks.min():g}: weights must be 0 or more")
    if loss != "squared_error" and not np.isin(columns, (-1, 1)).all():
        raise DataError(f"loss={loss!r} needs labels -1 and 1, and there are others")
    alphas, ratios = _numbers("alpha", alpha, np.inf), _numbers("l1_ratio", l1_ratio, 1.0)
    lengths = {len(alphas), len(ratios)}
    chosen = {"targets": (target_of, len(columns)), "row_weights": (weights_of, 1 if masks is None else len(masks))}
    lengths |= {count if given is None else np.size(given) for given, count in chosen.values()}
    models = max(lengths)
    if lengths - {1, models}:
        raise DataError(f"the models are {models} by one argument and {sorted(lengths)} by others: give 1 or {models}")
    numbers = [_choice(name, given, count, models) for name, (given, count) in chosen.items()]
    spread = [np.broadcast_to(each, models).copy() for each in (alphas, ratios)]
    made = LinearModels(SmoothLoss(loss), columns, masks, numbers[0], numbers[1], spread[0], spread[1], fit_intercept)
    if (empty := np.flatnonzero(made.totals() <= 0)).size:
        raise DataError(f"all weights of rows of model {empty[0]} are 0: give it a row")
    return made


def _of_rows(name: str, given: ArrayLike) -> Singles:
    """Return numbers of rows, float32 [arrays, rows]."""
    array = np.asarray(given)
    if array.ndim not in (1, 2) or not array.size:
        raise DataError(f"{name} has shape {array.shape}: give one number a row, or one column a model")
    columns = np.ascontiguousarray(array.reshape(len(array), -1).T, dtype=np.float32)
    if not np.isfinite(columns).all():
        raise DataError(f"{name} has a number that is not finite in float32")
    return columns


def _numbers(name: str, given: ArrayLike, most: float) -> Floats:
    numbers = np.atleast_1d(np.asarray(given, np.float64))
    if numbers.ndim != 1 or not (np.isfinite(numbers) & (numbers >= 0) & (numbers <= most)).all():
        raise DataError(f"{name}={given!r}: give numbers from 0 to {most:g}, finite")
    return numbers


def _choice(name: str, given: ArrayLike | None, count: int, models: int) -> NDArray[np.intp]:
    if given is None:
        return np.arange(models) if count == models else np.zeros(models, np.intp)
    numbers = np.atleast_1d(np.asarray(given, np.intp))
    if numbers.min() < 0 or numbers.max() >= count:
        raise DataError(f"a model has number {numbers.max()} of {name}, and there are {count}")
    return np.array(np.broadcast_to(numbers, models))
