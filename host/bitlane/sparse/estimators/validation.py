"""Checks of what the estimators are given. Each error is one line."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.errors import DataError
from bitlane.support.labels import as_array, missing_values, present_labels, required, sorted_classes
from bitlane.support.sklearn_compat import DataConversionWarning
from bitlane.support.user_warnings import warn_user


class WrongTypeError(DataError, TypeError):
    """A value of a type that cannot be used, such as a dict in an array of numbers."""


def as_numbers(values: ArrayLike, name: str) -> NDArray[np.float32]:
    """Return an array as finite float32.

    Raises
    ------
    DataError
        It does not hold real numbers, or one is NaN, infinite or beyond float32.
    """
    array = np.asarray(values)
    if array.dtype.kind == "c":
        raise DataError(f"Complex data not supported: {name} holds {array.dtype} values; real numbers are needed")
    message = f"{name} holds {array.dtype} values: it must hold numbers; give text in a table with named columns"
    if array.dtype.kind not in "biufO":
        raise DataError(message)
    if array.dtype.kind == "O" and (missing := missing_values(array)):
        raise DataError(f"{name} holds {missing} missing value(s): drop or fill them")
    try:
        with np.errstate(over="ignore"):
            numbers = array.astype(np.float32)
    except TypeError as error:
        raise WrongTypeError(f"{message} ({error})") from None
    except ValueError:
        raise DataError(message) from None
    bad = int(numbers.size - np.count_nonzero(np.isfinite(numbers)))
    if bad:
        raise DataError(f"{name} holds {bad} NaN, infinite or too large value(s): drop or fill them")
    return numbers


def one_a_row(y: ArrayLike | None, rows: int) -> NDArray[Any]:
    """Return y as an array [rows].

    Raises
    ------
    DataError
        It is missing, or has another shape.
    """
    values = as_array(required(y), "y")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
        warn_user("A column-vector y was passed when a 1d array was expected: y.ravel() is one", DataConversionWarning)
    if values.ndim != 1:
        raise DataError(f"y has {values.ndim} dimension(s): it must have one value per row")
    if len(values) != rows:
        raise DataError(f"X has {rows} rows, but y has {len(values)} values")
    return values


def weights_a_row(sample_weight: ArrayLike | None, rows: int) -> NDArray[np.float32] | None:
    """Return weights of rows, float32 [rows]; None if there are none.

    Raises
    ------
    DataError
        They have another shape, are no numbers, one is below 0 or not a finite float32, or all are 0.
    """
    if sample_weight is None:
        return None
    weights = as_numbers(as_array(sample_weight, "sample_weight"), "sample_weight")
    if weights.ndim == 0:
        weights = np.full(rows, weights, np.float32)
    if weights.ndim != 1:
        raise DataError(f"Sample weights must be 1D array or scalar, one number per row; got {weights.ndim} dimensions")
    if len(weights) != rows:
        raise DataError(f"sample_weight.shape == {weights.shape}, expected {(rows,)}: one weight for each row of X")
    if len(weights) and weights.min() < 0:
        row = int(np.argmax(weights < 0))
        raise DataError(f"sample_weight of row {row} is {weights[row]:g}: it must be at least 0")
    if len(weights) and not weights.any():
        raise DataError("all sample weights are zero: there is nothing to learn from")
    return weights


def two_classes(labels: ArrayLike, name: str = "y") -> NDArray[Any]:
    """Return the two classes of labels, sorted.

    Raises
    ------
    DataError
        There is one, there are more, or labels are missing or fractions.
    """
    classes = sorted_classes(present_labels(labels, name), name)
    if len(classes) > 2:
        raise DataError(
            f"Only binary classification is supported. The type of the target is multiclass: {name} has {len(classes)}"
            " classes; train one model for each against the rest, with sklearn.multiclass.OneVsRestClassifier"
        )
    return classes
