"""What the parameter `cv` of an estimator stands for: splits of the rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.quantization.scaling import Floats
from bitlane.solvers.held_out import Folds
from bitlane.support.rng import generator
from bitlane.support.scalars import as_integer, as_python, is_integer

SHUFFLE = 1 << 34  # the number of the generator that shuffles rows


def as_folds(cv: Any, y: NDArray[Any], classes: NDArray[Any] | None, seed: int) -> Folds:
    """Return the splits of rows that `cv` stands for.

    Parameters
    ----------
    cv : int, splitter of scikit-learn, or iterable of (train, test)
        A number of folds of shuffled rows, 2 or more; with classes, each fold has its share of each class.
    y : array [rows] or [rows, targets]
    classes : array, optional
        The labels that y has; folds are then stratified.
    seed : int
        Of the shuffle.

    Raises
    ------
    DataError
        Another kind of `cv`, fewer than 2 folds, or rows that are not there.
    """
    rows = len(y)
    if is_integer(cv):
        count = as_integer("cv", as_python(cv), 2)
        if count > rows:
            raise DataError(f"cv={count}: there are only {rows} rows for the folds")
        order = generator(seed, SHUFFLE).permutation(rows)
        if classes is not None:
            order = order[np.argsort(np.searchsorted(classes, y[order]), kind="stable")]
        number = np.empty(rows, np.intp)
        number[order] = np.arange(rows) % count
        test = number[:, None] == np.arange(count)
        return Folds(~test, test)
    if isinstance(cv, str) or not (hasattr(cv, "split") or isinstance(cv, Iterable)):
        raise DataError(f"cv={cv!r}: give a number of folds, a splitter, or pairs of row numbers (train, test)")
    pairs = list(cv.split(np.zeros((rows, 1)), y) if hasattr(cv, "split") else cv)
    if len(pairs) < 2:
        raise DataError(f"cv has {len(pairs)} folds: give 2 or more")
    if any(len(pair) != 2 for pair in pairs):
        raise DataError("cv has a fold that is no pair: give row numbers to fit, and row numbers to hold out")
    return Folds(*(np.stack([_mask(pair[side], rows) for pair in pairs], axis=1) for side in range(2)))


def check_folds(folds: Folds, targets: Floats, weights: Floats | None, classes: NDArray[Any] | None) -> None:
    """Raise DataError if a fold has nothing to fit or to hold out, or fits no row of a class.

    Parameters
    ----------
    folds : Folds
    targets : float64 array [rows, models]
        -1 and 1 if there are classes.
    weights : float64 array [rows, models], optional
    classes : array, optional
    """
    for fold in range(len(folds)):
        for name, mask in (("fit", folds.fitted[:, fold]), ("hold out", folds.held[:, fold])):
            if not (mask.any() if weights is None else weights[mask].any(axis=0).all()):
                raise DataError(f"fold {fold} of cv has no row with a weight above 0 to {name}: give fewer folds")
        if classes is None:
            continue
        counted = folds.fitted[:, fold, None] if weights is None else folds.fitted[:, fold, None] & (weights > 0)
        missing = [
            (classes if len(classes) > 2 else classes[1:] if sign > 0 else classes[:1])[model]
            for sign in (1, -1)
            for model in np.flatnonzero(~(counted & (targets == sign)).any(axis=0))
        ]
        if missing:
            raise DataError(
                f"fold {fold} of cv fits no row of class {as_python(missing[0])!r}: give fewer or stratified folds"
            )


def _mask(chosen: Any, rows: int) -> NDArray[np.bool_]:
    """Return which of so many rows were chosen by numbers or a mask."""
    array, mask = np.asarray(chosen), np.zeros(rows, np.bool_)
    if array.dtype == np.bool_ and array.shape == (rows,):
        return array
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise DataError(f"cv has a fold with {array.dtype} {array.shape}: give numbers of rows, or a mask of {rows}")
    if array.size and (array.min() < 0 or array.max() >= rows):
        raise DataError(f"cv has a fold with row {array.max() if array.max() >= rows else array.min()} of {rows} rows")
    mask[array] = True
    if np.count_nonzero(mask) < len(array):
        raise DataError("cv has a fold with the same row twice: weigh rows by sample_weight")
    return mask
