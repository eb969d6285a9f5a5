"""The arguments of fits of linear models at their optimum, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.data.arrays import as_labels, as_table, as_targets
from bitlane.quantization.scaling import Floats
from bitlane.support.labels import sorted_classes
from bitlane.training.options import EQUAL_WEIGHTS

from .predictions import positive_classes
from .validation import class_weights, row_weights


class LinearData(NamedTuple):
    """What a fit is given.

    Attributes
    ----------
    table : array, RowTable or EncodedTable [rows, n]
    targets : float64 array [rows, models]
    weights : float64 array [rows, models] or None
    """

    table: Any
    targets: Floats
    weights: Floats | None


def regression_data(X: Any, y: ArrayLike, sample_weight: ArrayLike | None, least: int = 2) -> LinearData:
    """Check the arguments of `LinearRegressor.fit`; fewer than `least` rows are refused."""
    table = as_table(X, least=least)
    targets = as_targets(y, len(table)).reshape(len(table), -1)
    weights = row_weights(sample_weight, len(table))
    return LinearData(table, targets, None if weights is None else np.repeat(weights[:, None], targets.shape[1], 1))


def class_data(
    X: Any, y: ArrayLike, sample_weight: ArrayLike | None, class_weight: str | Mapping[Any, float] | None
) -> tuple[LinearData, NDArray[Any], NDArray[Any]]:
    """Check the arguments of `LinearClassifier.fit`; return them, the labels, and the sorted classes."""
    table = as_table(X, least=2)
    labels = as_labels(y, len(table))
    classes = sorted_classes(labels)
    targets = np.where(labels[:, None] == positive_classes(classes), 1.0, -1.0)
    pairs = class_weights(class_weight, labels, classes)
    given = row_weights(sample_weight, len(table))
    weights = None
    if given is not None or any(pair != EQUAL_WEIGHTS for pair in pairs):
        rest, own = np.array(pairs).T
        weights = np.where(targets > 0, own, rest) * (1.0 if given is None else given[:, None])
    return LinearData(table, targets, weights), labels, classes
