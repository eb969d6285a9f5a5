"""Tables of samples from files: csv, parquet, libsvm, npz and npy.

Each unusable input raises a DataError of one line, which names the value and says what to do.
"""

# pandas has no types here: frames and columns are Any.
from __future__ import annotations

import difflib
import math
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.support.optional import require_extra

Floats = NDArray[np.float64]

MAX_CELLS = 1 << 30  # 8 GiB of float64: more than a host that trains linear models should be asked for


@dataclass(frozen=True)
class Dataset:
    """A table of samples with its labels.

    Attributes
    ----------
    X : float64 array [rows, n]
        Finite.
    y : float64 or str array [rows]
        Text if the labels are text.
    feature_names : tuple of str
    target : str
        Name of the label column.
    held_out : tuple of arrays, optional
        A second (X, y) that is not used for training.
    """

    X: Floats
    y: NDArray[Any]
    feature_names: tuple[str, ...]
    target: str
    held_out: tuple[Floats, NDArray[Any]] | None = None

    @property
    def rows(self) -> int:
        """Number of rows for training."""
        return int(self.X.shape[0])

    @property
    def features(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])


def read_dataset(path: str | Path, target: str | None = None, *, impute: bool = False) -> Dataset:
    """Read a table of samples from a file. The suffix of its name determines the format.

    Parameters
    ----------
    path : str or Path
        A file .csv, .tsv, .parquet, .libsvm, .svm, .svmlight, .npz or .npy; csv, tsv and libsvm also with .gz or .bz2.
    target : str, optional
        Name of the label column of a csv or parquet file; in an npy matrix its number, 0 for the first and -1 for the
        last. In the other formats it is fixed: npz the array y or y_train, libsvm the first field of a line.
    impute : bool, default=False
        Whether missing and infinite features are replaced by the mean of their column. Labels are never replaced.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        The file is missing, damaged, or cannot be used for training.
    BitlaneError
        The library that reads the format is not installed.
    """
    path = Path(path)
    if not path.exists():
        near = near_names(path.name, _siblings(path))
        raise DataError(f"no file {path}{near}")
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a file")
    reader = _reader(path)
    try:
        if path.stat().st_size == 0:
            raise DataError(f"{path} is empty")
        table = reader(path, target)
    except PermissionError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    except MemoryError as error:
        raise DataError(f"{path} does not fit in memory: train on a subset of its rows") from error
    return _checked(table, path.name, impute)


def _siblings(path: Path) -> list[str]:
    try:
        return [other.name for other in path.parent.iterdir()]
    except OSError:
        return []


def near_names(name: str, names: Sequence[str]) -> str:
    """Return "; did you mean ...?" with the names similar to `name`, or "" if there are none."""
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else ""


# --- csv and parquet -----------------------------------------------------------------------------
def _read_csv(path: Path, target: str | None) -> Dataset:
    pandas = require_extra("pandas", "reading csv files")
    separator = "\t" if ".tsv" in path.suffixes else ","
    try:
        # low_memory=False: a column's type comes from all of its values, not from some of them
        frame = pandas.read_csv(path, sep=separator, low_memory=False, index_col=False)
    except pandas.errors.EmptyDataError:
        raise DataError(f"{path.name} is empty") from None
    except pandas.errors.ParserError as error:
        reason = " ".join(str(error).replace("Error tokenizing data. C error: ", "").split())
        raise DataError(f"{path.name} is not a regular table: {reason}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path.name} is not UTF-8 text (byte {error.start})") from None
    return _from_frame(frame, path.name, target)


def _read_parquet(path: Path, target: str | None) -> Dataset:
    pandas = require_extra("pandas", "reading parquet files")
    require_extra("pyarrow", "reading parquet files", install="pyarrow")
    try:
        frame = pandas.read_parquet(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path.name} is not a parquet file: {_first_line(error)}") from error
    return _from_frame(frame, path.name, target)


def _from_frame(frame: Any, name: str, target: str | None) -> Dataset:
    columns = [str(column) for column in frame.columns]
    if target is None:
        raise DataError(f"{name} needs a target column, named with --target; it has {_some(columns)}")
    if target not in columns:
        near = near_names(target, columns) or f"; it has {_some(columns)}"
        raise DataError(f"{name} has no column {target!r}{near}")
    if columns.count(target) > 1:
        raise DataError(f"{name} has {columns.count(target)} columns named {target!r}")
    position = columns.index(target)
    features = [index for index in range(len(columns)) if index != position]
    if not features:
        raise DataError(f"{name} has no column except the target {target!r}")
    X = np.empty((len(frame), len(features)))
    for j, index in enumerate(features):
        X[:, j] = _numbers(frame.iloc[:, index], columns[index], name)
    y = _labels(frame.iloc[:, position], target, name)
    return Dataset(X, y, tuple(columns[index] for index in features), target)


def _numbers(column: Any, name: str, file: str) -> Floats:
    """Return a feature column as float64; an error names the first value that is text."""
    pandas = require_extra("pandas", "reading tables")
    if pandas.api.types.is_datetime64_any_dtype(column.dtype):
        raise DataError(f"{file}: column {name!r} holds dates; turn it into numbers, or drop it")
    numbers = pandas.to_numeric(column, errors="coerce")
    text = numbers.isna() & column.notna()
    if text.any():
        row = int(np.argmax(text.to_numpy()))
        raise DataError(
            f"{file}: column {name!r} holds text: {_shown(column.iloc[row])} in row {row + 1}; "
            "turn it into numbers, or drop it"
        )
    return np.asarray(numbers.to_numpy(dtype=np.float64, na_value=np.nan))


def _labels(column: Any, name: str, file: str) -> NDArray[Any]:
    """Return the target as float64, or as text if most of its values are text."""
    pandas = require_extra("pandas", "reading tables")
    if column.isna().any():
        row = int(np.argmax(column.isna().to_numpy()))
        raise DataError(f"{file}: target {name!r} has no value in row {row + 1}; drop such rows")
    numeric = pandas.to_numeric(column, errors="coerce").notna()
    if not numeric.all() and numeric.mean() <= 0.5:
        return np.asarray([str(value) for value in column])
    return _numbers(column, name, file)


# --- libsvm, npz, npy ----------------------------------------------------------------------------
def _read_libsvm(path: Path, target: str | None) -> Dataset:
    _no_target(path, target, "the first field of each line")
    datasets = require_extra("sklearn.datasets", "reading libsvm files")
    try:
        sparse, y = datasets.load_svmlight_file(str(path))
    except (ValueError, UnicodeDecodeError, EOFError, OSError) as error:
        raise DataError(f"{path.name} is not a libsvm file: {_first_line(error)}") from error
    if sparse.shape[0] == 0:
        raise DataError(f"{path.name} is empty")
    return _numbered(_densified(sparse, path.name), np.asarray(y, np.float64))


def _densified(sparse: Any, name: str) -> Floats:
    rows, features = sparse.shape
    if rows * features > MAX_CELLS:
        raise DataError(
            f"{name} has {rows} x {features} values: too many for a dense table; train on a subset of its rows"
        )
    return np.asarray(sparse.toarray(), np.float64)


def _read_npz(path: Path, target: str | None) -> Dataset:
    _no_target(path, target, "the array y or y_train")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            if not hasattr(arrays, "files"):
                raise DataError(f"{path.name} holds one array instead of X and y: rename it to .npy")
            names = set(arrays.files)
            for X_name, y_name in (("X", "y"), ("X_train", "y_train")):
                if {X_name, y_name} <= names:
                    break
            else:
                raise DataError(f"{path.name} holds {_some(sorted(names))}; it needs X and y, or X_train and y_train")
            X, y = _samples(arrays[X_name], X_name, path.name), _targets(arrays[y_name], y_name, path.name)
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
    return replace(_numbered(X, y), held_out=held_out)


def _read_npy(path: Path, target: str | None) -> Dataset:
    try:
        matrix = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"{path.name} is not an npy file of numbers: {_first_line(error)}") from error
    if not isinstance(matrix, np.ndarray) or matrix.ndim != 2 or matrix.dtype.kind not in "iufb":
        shape = matrix.shape if isinstance(matrix, np.ndarray) else "several arrays"
        raise DataError(f"{path.name} is {shape}; it needs a matrix of numbers that includes the target column")
    columns = matrix.shape[1]
    if target is None:
        raise DataError(f"{path.name} needs a target: a column number, 0 to {columns - 1}, or -1")
    try:
        position = range(columns)[int(target)]
    except (ValueError, IndexError):
        raise DataError(f"{path.name} has no column {target!r}: its columns are numbered 0 to {columns - 1}") from None
    if columns < 2:
        raise DataError(f"{path.name} has no column except the target")
    X = np.delete(matrix, position, axis=1).astype(np.float64)
    names = tuple(f"x{j}" for j in range(columns) if j != position)
    return Dataset(X, matrix[:, position].astype(np.float64), names, f"x{position}")


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


def _numbered(X: Floats, y: NDArray[Any]) -> Dataset:
    return Dataset(X, y, tuple(f"x{j}" for j in range(X.shape[1])), "y")


def _no_target(path: Path, target: str | None, location: str) -> None:
    if target not in (None, "y"):
        raise DataError(f"{path.name} has no column {target!r}: its target is {location}; omit the target")


# --- what every table must be --------------------------------------------------------------------
def _checked(table: Dataset, name: str, impute: bool) -> Dataset:
    if len(table.y) != table.rows:
        raise DataError(f"{name} has {table.rows} rows and {len(table.y)} labels")
    if table.rows == 0:
        raise DataError(f"{name} is empty: it has column names but no rows")
    if table.rows == 1:
        raise DataError(f"{name} has one row; training needs at least two")
    if table.features == 0:
        raise DataError(f"{name} has no features")
    if table.y.dtype.kind == "f":
        bad = ~np.isfinite(table.y)
        if bad.any():
            row = int(np.argmax(bad))
            raise DataError(f"{name}: the label of row {row + 1} is {table.y[row]}; drop such rows")
    means = _means(table, name) if impute else None
    X = _finite(table.X, table.feature_names, name, means)
    held_out = table.held_out
    if held_out is not None:
        held_out = (_finite(held_out[0], table.feature_names, f"{name} (test)", means), held_out[1])
    return replace(table, X=X, held_out=held_out)


def _means(table: Dataset, name: str) -> Floats:
    """Return the mean of the finite values of each column, float64 [n]."""
    finite = np.isfinite(table.X)
    counts = finite.sum(axis=0)
    if not counts.all():
        j = int(np.argmin(counts))
        raise DataError(f"{name}: column {table.feature_names[j]!r} has no values; drop it")
    return np.asarray(np.where(finite, table.X, 0.0).sum(axis=0) / counts)


def _finite(X: Floats, names: Sequence[str], name: str, means: Floats | None) -> Floats:
    bad = ~np.isfinite(X)
    if not bad.any():
        return X
    if means is not None:
        return np.where(bad, means, X)
    row, j = (int(index[0]) for index in np.nonzero(bad))
    what = "no value (NaN)" if np.isnan(X[row, j]) else f"the value {X[row, j]}"
    more = f" ({int(bad.sum())} such values)" if bad.sum() > 1 else ""
    raise DataError(
        f"{name}: column {names[j]!r} has {what} in row {row + 1}{more}; "
        "impute the column means (--impute), or drop such rows"
    )


# --- formats -------------------------------------------------------------------------------------
_READERS: dict[str, Callable[[Path, str | None], Dataset]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": _read_parquet,
    ".libsvm": _read_libsvm,
    ".svm": _read_libsvm,
    ".svmlight": _read_libsvm,
    ".npz": _read_npz,
    ".npy": _read_npy,
}
_PACKED = (".gz", ".bz2")  # what both pandas and scikit-learn unpack


def _reader(path: Path) -> Callable[[Path, str | None], Dataset]:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if len(suffixes) > 1 and suffixes[-1] in _PACKED and suffixes[-2] in (".csv", ".tsv", ".libsvm", ".svm"):
        return _READERS[suffixes[-2]]
    suffix = suffixes[-1] if suffixes else ""
    if suffix not in _READERS:
        shown = f"the suffix {suffix}" if suffix else "no suffix"
        raise DataError(f"{path.name} has {shown}; choose one of {', '.join(_READERS)}")
    return _READERS[suffix]


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown


def _shown(value: object) -> str:
    text = repr(str(value))
    return text if len(text) <= 40 else text[:36] + "...'"


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _as_data_error(error: BaseException, what: str) -> DataError:
    return error if isinstance(error, DataError) else DataError(f"{what}: {_first_line(error)}")
