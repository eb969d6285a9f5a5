"""Checks of the arguments of the estimators."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.data.arrays import finite, numbers
from bitlane.encoded.table import EncodedTable
from bitlane.errors import DataError
from bitlane.policies.protocol import BitPolicy
from bitlane.quantization.scaling import Floats
from bitlane.support.labels import present_labels, sorted_classes
from bitlane.support.rng import generator
from bitlane.support.scalars import as_boolean, as_number, is_integer
from bitlane.support.user_warnings import warn_user
from bitlane.training.by_policy import policy_of
from bitlane.training.objective import ClassWeights
from bitlane.training.result import TrainingResult

WORDS = ("bits", "sampling", "levels", "loss", "penalty", "clip", "staleness", "on_device_failure")
CALLS = 1 << 33  # generators of the seeds of calls are numbered from here: a training has those before


def check_words(model: Any) -> None:
    """Raise DataError if a parameter of few choices is an array, which cannot be compared with them."""
    for name in WORDS:
        if isinstance(value := getattr(model, name), np.ndarray):
            raise DataError(f"{name}={value!r}: pass a single value")


def as_coefficients(name: str, value: ArrayLike | None, shape: tuple[int, ...]) -> Floats | None:
    """Return coefficients to begin with as float64 of this shape; None stays None.

    The first axis, that of targets, may be missing if it has length 1.
    """
    if value is None:
        return None
    array = finite(numbers(np.asarray(value), name).astype(np.float64), name)
    if array.size != math.prod(shape) or array.shape not in (shape, shape[1:]):
        raise DataError(f"Provided {name} does not match dataset: its shape is {array.shape}, {shape} is needed")
    return array.reshape(shape)


def class_weights(class_weight: Any, labels: NDArray[Any], classes: NDArray[Any]) -> list[ClassWeights]:
    """Return weights of (rest, class) for each class against the rest; for two classes, one pair for the second.

    Parameters
    ----------
    class_weight : None, "balanced" or dict
        "balanced" is ``rows / (classes * rows of the class)``; a dict has weights by class, 1 for those it omits. With
        more than two classes the rest weighs 1. Both as in scikit-learn.
    labels : ndarray, shape (rows,)
    classes : ndarray
        Two or more, sorted.
    """
    if class_weight is None:
        weights = np.ones(len(classes))
    elif isinstance(class_weight, str) and class_weight == "balanced":
        weights = len(labels) / (len(classes) * np.array([np.count_nonzero(labels == label) for label in classes]))
    elif isinstance(class_weight, Mapping):
        weights = _given_weights(class_weight, classes.tolist())
    else:
        raise DataError(f"class_weight={class_weight!r}: choose None, 'balanced', or a dict of weights by class")
    if len(classes) == 2:
        return [(float(weights[0]), float(weights[1]))]
    return [(1.0, float(weight)) for weight in weights]


def row_weights(sample_weight: ArrayLike | None, rows: int) -> Floats | None:
    """Return weights of rows for a mean, float64 [rows]; None stays None.

    Raises
    ------
    DataError
        Another shape, a weight that is negative or not finite, or no weight above 0.
    """
    if sample_weight is None:
        return None
    weights = finite(numbers(np.asarray(sample_weight), "sample_weight").astype(np.float64), "sample_weight")
    if weights.shape != (rows,):
        raise DataError(f"sample_weight has shape {weights.shape}, but X has {rows} rows")
    if weights.min(initial=0.0) < 0 or not weights.any():
        raise DataError("sample_weight: no weight may be below zero, and one must be above zero")
    return weights


def known_classes(classes: ArrayLike | None, before: NDArray[Any] | None) -> NDArray[Any]:
    """Return the sorted classes of a call of partial_fit.

    Parameters
    ----------
    classes : array-like, optional
        As given. The first call needs them; later calls may repeat them.
    before : ndarray, optional
        Of the calls before.
    """
    if classes is None:
        if before is None:
            raise DataError("classes must be passed on the first call to partial_fit: pass all labels of the data")
        return before
    unique = sorted_classes(present_labels(classes, "classes"), "classes")
    if before is not None and not np.array_equal(unique, before):
        raise DataError(f"classes={unique.tolist()}, but earlier calls had {before.tolist()}")
    return unique


def _given_weights(class_weight: Mapping[Any, Any], classes: list[Any]) -> NDArray[np.float64]:
    unknown = [label for label in class_weight if label not in classes]
    if unknown:
        raise DataError(f"class_weight has {unknown[0]!r}, which is not a class of y")
    given = [as_number(f"class_weight[{label!r}]", class_weight.get(label, 1.0)) for label in classes]
    if min(given) < 0:
        raise DataError(f"class_weight={class_weight!r}: each weight must be at least 0")
    if not any(given):
        raise DataError(f"class_weight={class_weight!r}: one weight must be above 0")
    return np.array(given)


def finite_model(result: TrainingResult) -> tuple[Floats, Floats]:
    """Return coefficients [targets, n] and intercepts [targets] of a training, user units, without the axis of one.

    Raises
    ------
    DataError
        They or the loss overflow, or coefficients that are not 0 underflow: the units of X and y are too far apart.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        coef, intercept = result.coef, result.intercept
    if not all(np.isfinite(values).all() for values in (coef, intercept, result.loss)):
        raise DataError("the model overflows: the values of y, or their squares, are too large; divide y by a constant")
    if (lost := (coef == 0) & (result.weights != 0)).any():
        raise DataError(
            f"{np.count_nonzero(lost)} coefficient(s) underflow to 0: the values of y are too small for those of X; "
            "multiply y by a constant"
        )
    return coef, intercept


def clipped_batch(batch_size: int, rows: int) -> int:
    """Return batch_size, or the number of rows if that is less, with a warning."""
    if is_integer(batch_size) and batch_size > rows:
        warn_user(f"batch_size={batch_size} exceeds the {rows} rows: one batch takes them all")
        return rows
    return batch_size


def seed_of_call(seed: int, call: int) -> int:
    """Return the seed of a call of partial_fit: that of the estimator for call 0, another one for each later call."""
    return int(generator(seed, CALLS + call).integers(1 << 63)) if call else seed


def check_one_pass(X: Any, bits: int | str | BitPolicy, early_stopping: bool) -> None:
    """Raise DataError for a table and parameters that partial_fit cannot follow."""
    if isinstance(X, EncodedTable):
        raise DataError("an encoded table has fixed scales: use fit with warm_start=True instead of partial_fit")
    if policy_of(bits) is not None:
        raise DataError(f"bits={bits!r}: partial_fit needs a number of bits, not a policy")
    if as_boolean("early_stopping", early_stopping):
        raise DataError("early_stopping should be False with partial_fit, which is one pass over its rows")
