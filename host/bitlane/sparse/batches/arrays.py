"""Data sets in npz files, as in the folder of BITLANE_DATA: sparse or dense arrays to a batch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.checks import LARGEST_FIELD, RowLocation, check_finite
from bitlane.sparse.batches.labels import labels_of_numbers
from bitlane.sparse.batches.weights import check_row_weights

SPLITS = ("train", "test")


def batch_of_arrays(
    arrays: Mapping[str, Any],
    *,
    split: str = "train",
    task: str = "classification",
    positive: str | None = None,
    weight: str | None = None,
    max_fields: int | None = None,
    location: RowLocation,
) -> Batch:
    """Return the arrays of an npz file as a batch.

    Parameters
    ----------
    arrays : mapping of str to array
        Sparse: ``keys``, ``offsets``, ``labels`` and, if there are, ``fields``, ``values`` and ``times``. Dense:
        ``X_train`` and ``y_train``, ``X_test`` and ``y_test``: an entry that is not 0 is a feature whose key is its
        column, in field 0.
    split : {"train", "test"}, default="train"
        Of the dense arrays.
    task : {"classification", "regression"}, default="classification"
        Which labels are valid: see `checks.check_labels`.
    positive : str, optional
        The label that is 1: see `labels.labels_of_values`.
    weight : str, optional
        Array of the weights of rows; for dense arrays its name goes on with ``_train`` or ``_test``.
    max_fields : int, optional
        Fields must be below it.
    location : RowLocation

    Returns
    -------
    Batch

    Raises
    ------
    DataError
        Arrays are missing, or do not fit.
    """
    if "keys" in arrays:
        if split != "train":
            raise DataError(f"{location.file}: a sparse file has no split {split!r}; split it by rows")
        batch = _sparse(arrays, (task, positive), max_fields, location)
    else:
        batch = _dense(arrays, split, (task, positive), location)
        weight = None if weight is None else f"{weight}_{split}"
    return batch if weight is None else replace(batch, weights=_weights(arrays, weight, batch.rows, location))


def rows_of_arrays(arrays: Mapping[str, Any], split: str) -> int | None:
    """Return the rows of an npz file, or None if it has no labels. `arrays` loads an array when it is asked for."""
    name = "labels" if "keys" in arrays else f"y_{split}"
    return len(arrays[name]) if name in arrays else None


def dataset_path(name: str) -> Path | None:
    """Return the path of a data set in the folder of BITLANE_DATA, or None if the folder does not have it."""
    folder = os.environ.get("BITLANE_DATA")
    if not folder or not name.replace("-", "").replace("_", "").isalnum():
        return None
    path = Path(folder) / f"{name}.npz"
    return path if path.is_file() else None


def _weights(arrays: Mapping[str, Any], name: str, rows: int, location: RowLocation) -> NDArray[np.float32]:
    if name not in arrays:
        shown = ", ".join(sorted(arrays))
        raise DataError(f"{location.file}: there is no array {name!r} of weights; there are {shown}")
    weights = np.asarray(arrays[name])
    if weights.shape != (rows,) or weights.dtype.kind not in "biuf":
        raise DataError(f"{location.file}: array {name!r} must be {rows} numbers, the weights of its rows")
    return check_row_weights(weights, f"weight {name!r}", location.error)


def _sparse(
    arrays: Mapping[str, Any], classes: tuple[str, str | None], max_fields: int | None, location: RowLocation
) -> Batch:
    for name in ("offsets", "labels"):
        if name not in arrays:
            raise DataError(f"{location.file}: array {name!r} is missing beside 'keys'")
    keys, offsets = np.asarray(arrays["keys"]), np.asarray(arrays["offsets"]).astype(np.int64)
    if keys.dtype.kind not in "iu":
        raise DataError(f"{location.file}: keys are {keys.dtype}; they must be integers")
    if len(keys) and keys.min() < 0:
        raise DataError(f"{location.file}: key {keys.min()} is negative")
    fields = np.asarray(arrays["fields"]) if "fields" in arrays else np.zeros(len(keys), np.uint16)
    values = np.asarray(arrays["values"]) if "values" in arrays else np.ones(len(keys), np.float32)
    end = LARGEST_FIELD + 1 if max_fields is None else max_fields
    if len(fields) and not 0 <= fields.min() <= fields.max() < end:
        wrong = fields.min() if fields.min() < 0 else fields.max()
        raise DataError(f"{location.file}: field {wrong} is not from 0 to {end - 1}: set the number of fields")
    check_finite(values, None, "values", location)
    labels = labels_of_numbers(np.asarray(arrays["labels"]), *classes, location)
    times = np.asarray(arrays["times"]).astype(np.int64) if "times" in arrays else None
    try:
        return Batch(
            keys.astype(np.uint64), fields.astype(np.uint16), values.astype(np.float32), offsets, labels, times
        )
    except DataError as error:
        raise DataError(f"{location.file}: {error}") from error


def _dense(arrays: Mapping[str, Any], split: str, classes: tuple[str, str | None], location: RowLocation) -> Batch:
    both: list[NDArray[Any]] = []
    for name in (f"X_{split}", f"y_{split}"):
        if name not in arrays:
            shown = ", ".join(sorted(arrays))
            raise DataError(f"{location.file}: there is no array {name!r} and no 'keys'; there are {shown}")
        both.append(np.asarray(arrays[name]))
    features, labels = both
    features = features.reshape(len(features), -1)
    if len(labels) != len(features):
        raise DataError(f"{location.file}: {len(features)} rows need as many labels; got {len(labels)}")
    rows, columns = np.nonzero(features)
    values = features[rows, columns].astype(np.float32)
    check_finite(values, rows, "a value", location)
    offsets = np.searchsorted(rows, np.arange(len(features) + 1)).astype(np.int64)
    fields = np.zeros(len(values), np.uint16)
    targets = labels_of_numbers(labels, *classes, location)
    return Batch(columns.astype(np.uint64), fields, values, offsets, targets)
