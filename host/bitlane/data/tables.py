"""Tables of samples from files: csv, tsv, JSON lines, parquet, libsvm, npz and npy.

Each unusable input raises a DataError of one line, which names the value and says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bitlane.errors import DataError
from bitlane.support.file_names import names_beside
from bitlane.support.text import near_names

from . import array_files, frames
from .dataset import Dataset as Dataset
from .dataset import Floats
from .dataset import ModelColumns as ModelColumns
from .dataset import TableOptions as TableOptions
from .encoded_files import SUFFIX, read_encoded
from .frames import OnBytes

_READERS: dict[str, Callable[[Path, TableOptions, OnBytes | None], Dataset]] = {
    ".csv": frames.read_csv,
    ".tsv": frames.read_csv,
    ".jsonl": frames.read_json_lines,
    ".ndjson": frames.read_json_lines,
    ".parquet": frames.read_parquet,
    ".libsvm": array_files.read_libsvm,
    ".svm": array_files.read_libsvm,
    ".svmlight": array_files.read_libsvm,
    ".npz": array_files.read_npz,
    ".npy": array_files.read_npy,
}
TEXT = (".csv", ".tsv")  # what has a separator
NAMED = (*TEXT, ".jsonl", ".ndjson", ".parquet", ".npy")  # what has columns to choose
_PACKED = (*NAMED[:4], ".libsvm", ".svm")  # what may be packed


def read_dataset(path: str | Path, target: str | None = None, *, impute: bool = False) -> Dataset:
    """Read a table of samples from a file. The suffix of its name determines the format.

    Parameters
    ----------
    path : str or Path
        A file .csv, .tsv, .jsonl, .ndjson, .parquet, .libsvm, .svm, .svmlight, .npz or .npy; csv, tsv, JSON lines and
        libsvm also with .gz or .bz2; or .bits, an encoded table, which becomes an `EncodedTable` as X.
    target : str, optional
        Name of the label column of a csv, JSON lines or parquet file; in an npy matrix its number, 0 for the first and
        -1 for the last. In the other formats it is fixed: npz the array y or y_train, libsvm the first field of a line.
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
    return read_table(path, TableOptions(target, impute))


def read_table(path: str | Path, options: TableOptions, on_bytes: OnBytes | None = None) -> Dataset:
    """Read a table of samples from a file, as `read_dataset` does, with more options.

    Parameters
    ----------
    path : str or Path
    options : TableOptions
    on_bytes : callable, optional
        Called as ``on_bytes(n)`` after each n bytes of a csv or JSON lines file.

    Returns
    -------
    Dataset
        Of `options.model`: its features in the order of the model; `y` is None if the file has no labels.

    Raises
    ------
    DataError, BitlaneError
        As from `read_dataset`; or an option that the format does not have.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(f"no file {path}{near_names(path.name, names_beside(path))}")
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a file")
    if path.suffix == SUFFIX:
        return read_encoded(path, options)
    suffix = _suffix(path)
    if suffix not in TEXT and (options.separator is not None or not options.header):
        what = "separator" if options.separator is not None else "header line"
        raise DataError(f"{path.name} is no csv file and has no {what}: omit the option")
    try:
        if path.stat().st_size == 0:
            raise DataError(f"{path} is empty")
        table = _READERS[suffix](path, options, on_bytes)
    except PermissionError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    except MemoryError as error:
        raise DataError(f"{path} does not fit in memory: train on a subset of its rows") from error
    return _checked(table, path.name, options)


def _suffix(path: Path) -> str:
    """Return the suffix that names the format."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if len(suffixes) > 1 and suffixes[-1] in frames.OPENERS and suffixes[-2] in _PACKED:
        return suffixes[-2]
    suffix = suffixes[-1] if suffixes else ""
    if suffix not in _READERS:
        shown = f"the suffix {suffix}" if suffix else "no suffix"
        raise DataError(f"{path.name} has {shown}; choose one of {', '.join(_READERS)}")
    return suffix


# --- what every table must be --------------------------------------------------------------------
def _checked(table: Dataset, name: str, options: TableOptions) -> Dataset:
    model = options.model
    if table.y is not None and len(table.y) != table.rows:
        raise DataError(f"{name} has {table.rows} rows and {len(table.y)} labels")
    if table.rows == 0:
        raise DataError(f"{name} is empty: it has column names but no rows")
    if table.rows == 1 and model is None:
        raise DataError(f"{name} has one row; training needs at least two")
    if table.features == 0:
        raise DataError(f"{name} has no features")
    if table.y is not None and table.y.dtype.kind == "f":
        bad = ~np.isfinite(table.y)
        if bad.any():
            row = int(np.argmax(bad))
            raise DataError(f"{name}: the label of row {row + 1} is {table.y[row]}; drop such rows")
    means = model.means if model is not None else _means(table, name) if options.impute else None
    X = _finite(table.X, table.feature_names, name, means)
    held_out = table.held_out
    if held_out is not None:
        held_out = (_finite(held_out[0], table.feature_names, f"{name} (test)", means), held_out[1])
    return replace(table, X=X, held_out=held_out, means=means)


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
