"""Checks of what users hand to the estimators: one clear line each, and arrays of the kind that is promised."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.data.arrays import finite, numbers
from bitlane.errors import DataError
from bitlane.quantization.scaling import Floats
from bitlane.training.objective import ClassWeights


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
    array = finite(numbers(np.asarray(value), name).astype(np.float64), name)
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
