"""Tables of numbers without column names: libsvm, npz and npy."""

from __future__ import annotations

import math
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.support.csv_text import numbered_names
from bitlane.support.optional import require_extra
from bitlane.support.text import some_names

from .dataset import Dataset, Floats, TableOptions, choose_columns
from .frames import OnBytes, first_line

MAX_CELLS = 1 << 30  # 8 GiB of float64: more than a host that trains linear models should be asked for


def read_libsvm(path: Path, options: TableOptions, _: OnBytes | None = None) -> Dataset:
    """Read a libsvm file. For a model, features that the file lacks at the end are 0."""
    _no_columns(path, options, "the first field of each line")
    datasets = require_extra("sklearn.datasets", "reading libsvm files", "'bitlane[datasets]'")
    try:
        sparse, y = datasets.load_svmlight_file(str(path))
    except (ValueError, UnicodeDecodeError, EOFError, OSError) as error:
        raise DataError(f"{path.name} is not a libsvm file: {first_line(error)}") from error
    if sparse.shape[0] == 0:
        raise DataError(f"{path.name} is empty")
    if options.model is not None:
        width = len(options.model.features)
        if sparse.shape[1] > width:
            raise _features_differ(path, sparse.shape[1], width)
        sparse.resize(sparse.shape[0], width)
    return _numbered(_densified(sparse, path.name), np.asarray(y, np.float64), options)


def read_npz(path: Path, options: TableOptions, _: OnBytes | None = None) -> Dataset:
    """Read the arrays X and y, or X_train and y_train, and X_test and y_test if they are there."""
    _no_columns(path, options, "the array y or y_train")
    model = options.model
    try:
        with np.load(path, allow_pickle=False) as arrays:
            if not hasattr(arrays, "files"):
                raise DataError(f"{path.name} holds one array instead of X and y: rename it to .npy")
            names = set(arrays.files)
            optional = model is not None and not model.labelled
            for X_name, y_name in (("X", "y"), ("X_train", "y_train")):
                if X_name in names and (optional or y_name in names):
                    break
            else:
                raise DataError(
                    f"{path.name} holds {some_names(sorted(names))}; it needs X and y, or X_train and y_train"
                )
            X = _samples(arrays[X_name], X_name, path.name)
            y = _targets(arrays[y_name], y_name, path.name) if y_name in names else None
            held_out = None
            if {"X_test", "y_test"} <= names:
                held_out = (
                    _samples(arrays["X_test"], "X_test", path.name),
                    _targets(arrays["y_test"], "y_test", path.name),
                )
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise _as_data_error(error, f"{path.name} is not an npz file of numbers") from error
    if held_out is not None and held_out[0].shape[1] != X.shape[1]:
        raise DataError(f"{path.name}: X_test has {held_out[0].shape[1]} features, {X_name} {X.shape[1]}")
    if held_out is not None and len(held_out[0]) != len(held_out[1]):
        rows, labels = len(held_out[0]), len(held_out[1])
        raise DataError(f"{path.name}: {rows} rows in X_test, {labels} labels in y_test")
    if model is not None and X.shape[1] != len(model.features):
        raise _features_differ(path, X.shape[1], len(model.features))
    return replace(_numbered(X, y, options), held_out=held_out)


def read_npy(path: Path, options: TableOptions, _: OnBytes | None = None) -> Dataset:
    """Read a matrix, whose columns are numbered."""
    try:
        matrix = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"{path.name} is not an npy file of numbers: {first_line(error)}") from error
    if not isinstance(matrix, np.ndarray) or matrix.ndim != 2 or matrix.dtype.kind not in "iufb":
        shape = matrix.shape if isinstance(matrix, np.ndarray) else "several arrays"
        raise DataError(f"{path.name} is {shape}; it needs a matrix of numbers that includes the target column")
    columns = numbered_names(matrix.shape[1])
    features, position = choose_columns(columns, options, path.name, named=False)
    X = matrix[:, features].astype(np.float64)
    names = tuple(columns[index] for index in features) if options.model is None else options.model.features
    if position is None:
        return Dataset(X, None, names, "" if options.model is None else options.model.target)
    return Dataset(X, matrix[:, position].astype(np.float64), names, columns[position])


def _densified(sparse: Any, name: str) -> Floats:
    rows, features = sparse.shape
    if rows * features > MAX_CELLS:
        raise DataError(
            f"{name} has {rows} x {features} values: too many for a dense table; train on a subset of its rows"
        )
    return np.asarray(sparse.toarray(), np.float64)


def _samples(X: NDArray[Any], name: str, file: str) -> Floats:
    if X.dtype.kind not in "iufb" or X.ndim < 2:
        shape = f"{X.dtype}{list(X.shape)}"
        raise DataError(f"{file}: {name} is {shape}; it needs numbers, one row per sample")
    return X.reshape(len(X), math.prod(X.shape[1:])).astype(np.float64)  # images become rows of pixels


def _targets(y: NDArray[Any], name: str, file: str) -> NDArray[Any]:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or y.dtype.kind not in "iufbU":
        raise DataError(f"{file}: {name} is {y.dtype}{list(y.shape)}; it needs one label per row")
    return y if y.dtype.kind == "U" else y.astype(np.float64)


def _numbered(X: Floats, y: NDArray[Any] | None, options: TableOptions) -> Dataset:
    model = options.model
    return Dataset(X, y, numbered_names(X.shape[1]) if model is None else model.features, "y")


def _no_columns(path: Path, options: TableOptions, location: str) -> None:
    if options.target not in (None, "y"):
        raise DataError(f"{path.name} has no column {options.target!r}: its target is {location}; omit the target")
    if options.ignore:
        raise DataError(f"{path.name} has no column names, and no column {options.ignore[0]!r} to ignore")


def _features_differ(path: Path, found: int, wanted: int) -> DataError:
    return DataError(f"{path.name} has {found} features, but the model was trained on {wanted}")


def _as_data_error(error: BaseException, what: str) -> DataError:
    return error if isinstance(error, DataError) else DataError(f"{what}: {first_line(error)}")
