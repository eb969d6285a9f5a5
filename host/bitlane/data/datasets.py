"""Data sets by name: from scikit-learn, from a folder of the user, or downloaded.

The environment variable `BITLANE_DATA` names a folder of `NAME.npz` files (arrays X_train, y_train, X_test, y_test),
which comes first. A data set that is not there is downloaded, checked, and stored in `BITLANE_CACHE` (default
`~/.cache/bitlane`, or `bitlane` in `XDG_CACHE_HOME`).
"""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.support.cache import cache_folder
from bitlane.support.optional import require_extra

from .catalog import DatasetEntry, TableInArchive, find_dataset
from .downloads import download
from .idx import read_idx
from .tables import Dataset, read_dataset

Floats = NDArray[np.float64]


def load_dataset(name: str) -> Dataset:
    """Load the data set `name`, with held-out rows if it is not from scikit-learn.

    A data set without a fixed split is split 80/20 by a fixed permutation.

    Parameters
    ----------
    name : str
        One of `list_datasets()`.

    Returns
    -------
    Dataset
        X float64 [rows, features], y float64 [rows]. The labels of two classes are -1 and +1.

    Raises
    ------
    DataError
        The name is unknown, the download failed, or a file is damaged.
    BitlaneError
        scikit-learn or pooch is needed and not installed.
    """
    entry = find_dataset(name)
    if entry.bundled:
        return _bundled(entry)
    local = _local(entry)
    if local is not None:
        return read_dataset(local)
    if not entry.files:
        raise DataError(f"no public server has data set {name!r}: set BITLANE_DATA to a folder with {name}.npz")
    paths = [download(file, cache_folder() / name) for file in entry.files]
    if entry.table is not None:
        return _split(*_from_archive(paths[0], entry.table, entry))
    return _from_images(paths) if entry.files[0].name.endswith("ubyte.gz") else _from_libsvm(paths, entry)


def location_of(entry: DatasetEntry) -> str:
    """Return the path or address from which `load_dataset` would take the data set now.

    Returns
    -------
    {"scikit-learn", "BITLANE_DATA", "cache", "download", ""}
        "" if it cannot be loaded.
    """
    if entry.bundled:
        return "scikit-learn"
    if _local(entry) is not None:
        return "BITLANE_DATA"
    if not entry.files:
        return ""
    folder = cache_folder() / entry.name
    return "cache" if all((folder / file.name).exists() for file in entry.files) else "download"


def _local(entry: DatasetEntry) -> Path | None:
    root = os.environ.get("BITLANE_DATA")
    path = Path(root) / f"{entry.name}.npz" if root else None
    return path if path is not None and path.exists() else None


def _bundled(entry: DatasetEntry) -> Dataset:
    loader = getattr(
        require_extra("sklearn.datasets", f"data set {entry.name!r}", "'bitlane[datasets]'"), entry.bundled
    )
    bunch = loader()
    y = np.asarray(bunch.target, np.float64)
    names = tuple(str(name) for name in bunch.feature_names)
    labels = _signs(y) if entry.task == "binary" else y
    return Dataset(np.asarray(bunch.data, np.float64), labels, names, "target")


def _from_libsvm(paths: list[Path], entry: DatasetEntry) -> Dataset:
    """Return one file split 80/20, or two files as training and held-out rows."""
    datasets = require_extra("sklearn.datasets", "reading libsvm files", "'bitlane[datasets]'")
    try:
        arrays = datasets.load_svmlight_files([str(path) for path in paths], n_features=entry.features)
    except ValueError as error:
        raise DataError(f"{paths[0]} is not a libsvm file with {entry.features} features: {error}") from error
    dense = [np.asarray(array.toarray() if i % 2 == 0 else array, np.float64) for i, array in enumerate(arrays)]
    if entry.task == "binary":
        dense[1::2] = [_signs(y) for y in dense[1::2]]
    if len(paths) == 1:
        return _split(*dense)
    return _numbered(dense[0], dense[1], (dense[2], dense[3]))


def _from_archive(path: Path, table: TableInArchive, entry: DatasetEntry) -> tuple[Floats, Floats]:
    try:
        with tarfile.open(path) as archive:
            member = archive.extractfile(table.member)
            text = member.read() if member is not None else b""
        values = np.array([line.split() for line in text.replace(b",", b" ").splitlines()], np.float64)
    except (tarfile.TarError, EOFError, KeyError, ValueError) as error:
        raise DataError(f"{path} has no table {table.member} ({error}): delete it to download it again") from error
    expected = (entry.rows, entry.features + 1)
    if values.shape != expected:
        raise DataError(f"{path}: {table.member} has shape {values.shape}, expected {expected}")
    return values[:, table.columns], values[:, table.target]


def _from_images(paths: list[Path]) -> Dataset:
    X, y, X_test, y_test = (read_idx(path) for path in paths)
    flat = (images.reshape(len(images), -1).astype(np.float64) for images in (X, X_test))
    return _numbered(next(flat), y.astype(np.float64), (next(flat), y_test.astype(np.float64)))


def _split(X: Floats, y: Floats) -> Dataset:
    """Return 80 % of the rows for training and 20 % held out, as the files of BITLANE_DATA are split."""
    order = np.random.default_rng(0).permutation(len(X))
    train, test = np.split(order, [int(0.8 * len(X))])
    return _numbered(X[train], y[train], (X[test], y[test]))


def _numbered(X: Floats, y: Floats, held_out: tuple[Floats, Floats]) -> Dataset:
    return Dataset(X, y, tuple(f"x{j}" for j in range(X.shape[1])), "y", held_out)


def _signs(y: Floats) -> Floats:
    """Return two classes as -1 and +1. Of classes 1 and 2, as in LIBSVM's mushrooms, 1 becomes +1."""
    low, high = np.unique(y)
    positive = low if (low, high) == (1.0, 2.0) else high
    return np.where(y == positive, 1.0, -1.0)
