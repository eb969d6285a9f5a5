"""Checks of what users hand to the estimators: one clear line each, and arrays of the kind that is promised."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .conventions import conversion_warning
from .errors import DataError
from .objective import ClassWeights
from .scaling import Floats, Table


def as_table(X: ArrayLike, least: int = 0) -> Table:
    """X as integers or floats [rows, n], finite, with `least` rows."""
    if hasattr(X, "toarray"):
        raise DataError(f"X is a sparse {type(X).__name__}: only dense tables are taken, such as X.toarray()")
    table = np.asarray(X, order="C")  # sums in one order, whatever the layout of X
    if table.ndim != 2:
        raise DataError(
            f"X has {table.ndim} dimension(s): it must be a dense table of two, rows and features. Reshape your data:"
            " X.reshape(1, -1) is one row, X.reshape(-1, 1) one feature"
        )
    if least and len(table) == 0:
        raise DataError("X has 0 rows: there is nothing to learn from")
    if len(table) < least:
        raise DataError(f"X has {len(table)} sample(s): at least {least} are needed")
    if table.shape[1] == 0:
        raise DataError(
            f"X has 0 feature(s) (shape={table.shape}) while a minimum of 1 is required: there is nothing to learn from"
        )
    return _finite(_numbers(table, "X"), "X")


def as_targets(y: ArrayLike | None, rows: int) -> Floats:
    """y as float64 [rows] or, of several columns, [rows, targets], finite."""
    targets = _given(y)
    if targets.ndim == 2 and targets.shape[1] == 0:
        raise DataError("y has 0 columns: there is nothing to learn")
    targets = _of_rows(targets, rows)
    columns = targets if targets.ndim == 2 else _one_dimension(targets)
    return _finite(_numbers(columns, "y").astype(np.float64), "y")


def as_labels(y: ArrayLike | None, rows: int) -> NDArray[Any]:
    """y as an array [rows] of class labels, without missing values."""
    given = _given(y)
    labels = _one_dimension(_of_rows(given, rows))
    if labels.ndim < given.ndim:
        message = "A column-vector y was passed when a 1d array was expected: y.ravel() is one"
        warnings.warn(message, conversion_warning(), stacklevel=3)
    if labels.dtype.kind == "f":
        fractions = np.count_nonzero(_finite(labels, "y") % 1)
        if fractions:
            raise DataError(
                f"Unknown label type: continuous; {fractions} value(s) of y are not whole. SGDRegressor takes them"
            )
    return labels


def _given(y: ArrayLike | None) -> NDArray[Any]:
    if y is None:
        raise DataError("training and scoring requires y to be passed, but the target y is None")
    return np.asarray(y)


def _one_dimension(y: NDArray[Any]) -> NDArray[Any]:
    if y.ndim != 1:
        raise DataError(f"y has {y.ndim} dimension(s): it must have one value a row")
    return y


def _of_rows(y: NDArray[Any], rows: int) -> NDArray[Any]:
    """y without a second axis that has one element; DataError unless it has so many rows."""
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim and len(y) != rows:
        raise DataError(f"X has {rows} rows, but y has {len(y)} values")
    return y


def _numbers(array: NDArray[Any], name: str) -> Table:
    """The array if it holds integers, float32 or float64; other numbers as float64."""
    if array.dtype in (np.float32, np.float64) or array.dtype.kind in "iu":
        return array
    if array.dtype.kind == "c":
        raise DataError(f"Complex data not supported: {name} holds {array.dtype} values, and a model has real ones")
    try:
        if array.dtype.kind not in "bfO":
            raise TypeError
        return np.asarray(array.astype(np.float64))
    except (TypeError, ValueError):
        raise DataError(f"{name} holds {array.dtype} values: it must hold numbers; encode text first") from None


_AnyArray = TypeVar("_AnyArray", bound=NDArray[Any])


def _finite(array: _AnyArray, name: str) -> _AnyArray:
    bad = int(array.size - np.count_nonzero(np.isfinite(array)))
    if bad:
        raise DataError(f"{name} holds {bad} NaN or infinite value(s): drop or fill them")
    return array


def column_names(X: Any) -> NDArray[Any] | None:
    """The column names of a DataFrame-like X, if all are strings."""
    columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return np.asarray(list(columns), dtype=object)


def check_names(X: Any, fitted: NDArray[Any] | None) -> None:
    """Warns where only one of X and the table that was fitted has column names; DataError where they differ."""
    names = column_names(X)
    if names is None or fitted is None:
        if names is not None:
            warnings.warn("X has feature names, but the model was fitted without: their order is trusted", stacklevel=4)
        elif fitted is not None:
            warnings.warn("X has no valid feature names, but the model was fitted with some", stacklevel=4)
        return
    if np.array_equal(names, fitted):
        return
    told = "they are in another order"
    for difference, what in ((set(names) - set(fitted), "new here"), (set(fitted) - set(names), "missing")):
        if difference:
            told = f"{', '.join(sorted(difference)[:5])}{' and others' * (len(difference) > 5)} are {what}"
            break
    raise DataError(f"The feature names should match those that were passed during fit: {told}")


def as_coefficients(name: str, value: ArrayLike | None, targets: int, features: int | None) -> Floats | None:
    """Coefficients to begin with as float64 [targets, features], or [targets] without features; None stays None."""
    if value is None:
        return None
    array = _finite(_numbers(np.asarray(value), name).astype(np.float64), name)
    shape = (targets,) if features is None else (targets, features)
    if array.size != math.prod(shape) or array.shape not in (shape, shape[1:]):
        raise DataError(f"{name} has shape {array.shape}, but the data asks for {shape}")
    return array.reshape(shape)


def class_weights(class_weight: Any, labels: NDArray[Any], classes: NDArray[Any]) -> list[ClassWeights]:
    """For each class against the rest (of two: for the second against the first) the weights of rest and class.

    Parameters
    ----------
    class_weight: None, "balanced" (rows / (classes * rows of the class)), or weights by class, 1 where none is
        given. Of more than two classes the rest weighs 1. Both as in scikit-learn.
    labels: [rows]. classes: [2 or more], sorted.
    """
    if class_weight is None:
        weights = np.ones(len(classes))
    elif isinstance(class_weight, str) and class_weight == "balanced":
        weights = len(labels) / (len(classes) * np.array([np.count_nonzero(labels == label) for label in classes]))
    elif isinstance(class_weight, Mapping):
        known = classes.tolist()
        unknown = [label for label in class_weight if label not in known]
        if unknown:
            raise DataError(f"class_weight has {unknown[0]!r}, which is no class of y")
        given = [as_number(f"class_weight[{label!r}]", class_weight.get(label, 1.0)) for label in known]
        if min(given) < 0:
            raise DataError(f"class_weight={class_weight!r}: each must be 0 or more")
        weights = np.array(given)
    else:
        raise DataError(f"class_weight={class_weight!r}: choose None, 'balanced', or weights by class")
    if len(classes) == 2:
        return [(float(weights[0]), float(weights[1]))]
    return [(1.0, float(weight)) for weight in weights]


def as_number(name: str, value: Any) -> float:
    """The value as a float; DataError unless it is a finite number."""
    if not isinstance(value, Real) or not math.isfinite(value):
        raise DataError(f"{name}={value!r}: it must be a finite number")
    return float(value)


def clipped_batch(batch_size: int, rows: int) -> int:
    """batch_size, but not more than there are rows, with a warning."""
    if isinstance(batch_size, int | np.integer) and batch_size > rows:
        warnings.warn(f"batch_size={batch_size} exceeds the {rows} rows: one batch takes them all", stacklevel=4)
        return rows
    return batch_size


def as_seed(random_state: Any) -> int:
    """random_state as a whole number, a fresh one for None."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer) or random_state < 0:
        raise DataError(f"random_state={random_state!r}: it must be None or a whole number, 0 or more")
    return int(random_state)
