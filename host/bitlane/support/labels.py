"""Class labels as users pass them: arrays, lists and columns of tables. Each error is one line."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.errors import DataError


def required(y: ArrayLike | None) -> ArrayLike:
    """Return y; raise DataError if it is None."""
    if y is None:
        raise DataError("training and scoring requires y to be passed, but the target y is None")
    return y


def as_array(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return an array-like as an array in which missing values are still to be seen.

    A list of text and NaN stays a list of objects: as an array of text it would hold the text "nan".

    Raises
    ------
    DataError
        `values` is a masked array with masked values, which an array cannot show.
    """
    if isinstance(values, np.ma.MaskedArray) and (masked := np.count_nonzero(values.mask)):
        raise DataError(f"{name} holds {masked} missing value(s): drop or fill them")
    array = np.asarray(values)
    text = array.dtype.kind == "T" or (array.dtype.kind in "SU" and isinstance(values, list | tuple))
    return np.asarray(values, dtype=object) if text and missing_values(np.asarray(values, dtype=object)) else array


def missing_values(array: NDArray[Any]) -> int:
    """Return how many values are None, NaN, NaT or NA: of numpy, of pandas, or in an array of objects."""
    if array.dtype.kind == "O":
        return sum(map(_is_missing, array.ravel()))
    return int(np.count_nonzero(array != array)) if array.dtype.kind in "fcmM" else 0


def present_labels(y: ArrayLike | None, name: str = "y") -> NDArray[Any]:
    """Return labels of any type, of which none is missing.

    Raises
    ------
    DataError
        There are no labels, or some are missing, infinite or fractional.
    """
    labels = as_array(required(y), name)
    if labels.dtype.kind != "f" and (missing := missing_values(labels)):
        raise DataError(f"{name} holds {missing} missing value(s): drop or fill them")
    floats = _floats(labels)
    if bad := int(np.count_nonzero(~np.isfinite(floats))):
        raise DataError(f"{name} holds {bad} NaN or infinite value(s): drop or fill them")
    if fractions := int(np.count_nonzero(floats % 1)):
        raise DataError(
            f"Unknown label type: continuous; {name} has {fractions} value(s) with a fraction: use a regressor"
        )
    return labels


def _floats(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the labels that are floats: all of them, or those in an array of objects."""
    if labels.dtype.kind == "O":
        return np.array([label for label in labels.ravel() if isinstance(label, float | np.floating)], np.float64)
    return labels if labels.dtype.kind == "f" else np.empty(0)


def sorted_classes(labels: NDArray[Any], name: str = "y") -> NDArray[Any]:
    """Return the different labels, sorted.

    Raises
    ------
    DataError
        There are fewer than two, or they cannot be sorted.
    """
    try:
        classes: NDArray[Any] = np.unique(labels)
    except TypeError:
        raise DataError(
            f"Unknown label type: {name} mixes values that cannot be sorted, such as numbers and text"
        ) from None
    if len(classes) < 2:
        raise DataError(
            f"{name} holds one class only ({', '.join(map(repr, classes.tolist()))}): a classifier needs two"
        )
    return classes


def _is_missing(value: Any) -> bool:
    if value is None or value is np.ma.masked:
        return True
    try:
        return bool(value != value)
    except ValueError:  # an array
        return False
    except TypeError:  # NA is neither equal nor different
        return True
