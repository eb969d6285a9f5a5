"""Data sets by name: those inside packages, those of a folder of yours, and those with a public home.

`BITLANE_DATA` names a folder of `NAME.npz` files (X_train, y_train, X_test, y_test): they come first. What is
not there is fetched from its public home, checked, and kept in `BITLANE_CACHE` (default `~/.cache/bitlane`).
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
import urllib.error
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.support.cache import cache_folder
from bitlane.support.optional import require_extra

from .tables import Dataset, near_names, read_dataset

Task = Literal["regression", "binary", "multiclass"]

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_TIMEOUT = 30.0  # seconds without a byte


@dataclass(frozen=True)
class Remote:
    """A file with a public home. `digest`: "algorithm:hex" of the unpacked file, "" where none is known."""

    url: str
    digest: str = ""

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2].removesuffix(".gz")


@dataclass(frozen=True)
class DatasetEntry:
    """A data set that `load_dataset` knows. `rows` counts training and held-out rows."""

    name: str
    task: Task
    rows: int
    features: int
    about: str
    remotes: tuple[Remote, ...] = ()
    bundled: str = ""  # the loader's name in sklearn.datasets


def _libsvm(kind: str, *files: tuple[str, str]) -> tuple[Remote, ...]:
    return tuple(Remote(f"{_LIBSVM}/{kind}/{name}", digest) for name, digest in files)


def _images(home: str, *digests: str) -> tuple[Remote, ...]:
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    pairs = zip(names, digests, strict=True)
    return tuple(Remote(f"{home}/{name}-ubyte.gz", f"sha256:{digest}") for name, digest in pairs)


_CADATA = _libsvm("regression", ("cadata", ""))
_CPUSMALL = _libsvm("regression", ("cpusmall", ""))

_ENTRIES = (
    DatasetEntry("digits", "multiclass", 1797, 64, "8 x 8 images of digits", bundled="load_digits"),
    DatasetEntry("wine", "multiclass", 178, 13, "wines of three growers", bundled="load_wine"),
    DatasetEntry("breast_cancer", "binary", 569, 30, "cell nuclei, benign or not", bundled="load_breast_cancer"),
    DatasetEntry("diabetes", "regression", 442, 10, "disease progression in a year", bundled="load_diabetes"),
    DatasetEntry("cadata", "regression", 20640, 8, "house values in California", _CADATA),
    DatasetEntry("cpusmall", "regression", 8192, 12, "CPU time in user mode", _CPUSMALL),
    DatasetEntry("cpu_act", "regression", 8192, 21, "CPU time in user mode, all columns"),
    DatasetEntry("housing_boston", "regression", 506, 13, "house values in Boston"),
    DatasetEntry("millionsong_6719", "regression", 6719, 12, "a song's year from its timbre"),
    DatasetEntry(
        "cod-rna",
        "binary",
        331152,
        8,
        "non-coding RNA",
        _libsvm(
            "binary",
            ("cod-rna", "md5:cd14eab76f391e288e6e8e592ae658dd"),
            ("cod-rna.t", "md5:b876c22c86a33ef262342b12d2718655"),
        ),
    ),
    DatasetEntry(
        "a9a",
        "binary",
        48842,
        123,
        "income above 50,000 a year",
        _libsvm(
            "binary",
            ("a9a", "md5:fb3596510d780aaf76a06dc721d49662"),
            ("a9a.t", "md5:f0bb16cf1ee3e80ff560e9d132ee647e"),
        ),
    ),
    DatasetEntry(
        "mushrooms",
        "binary",
        8124,
        112,
        "edible mushrooms",
        _libsvm("binary", ("mushrooms", "md5:2a52251de564d72e772b25211a84f5f8")),
    ),
    DatasetEntry(
        "mnist",
        "multiclass",
        70000,
        784,
        "28 x 28 images of digits",
        _images(
            _MNIST,
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    ),
    DatasetEntry(
        "fashion_mnist",
        "multiclass",
        70000,
        784,
        "28 x 28 images of clothes",
        _images(
            _FASHION,
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
    ),
)


def list_datasets() -> tuple[DatasetEntry, ...]:
    """The data sets that `load_dataset` knows, those that need no network first."""
    return _ENTRIES


def entry(name: str) -> DatasetEntry:
    """The entry of `name`; raises DataError with the near names where there is none."""
    for known in _ENTRIES:
        if known.name == name:
            return known
    names = [known.name for known in _ENTRIES]
    raise DataError(f"no data set {name!r}{near_names(name, names) or '; known are ' + ', '.join(names)}")


def load_dataset(name: str) -> Dataset:
    """The samples of data set `name`: X float64[rows, n], y float64[rows] (binary labels -1 and +1).

    Raises DataError for an unknown name, a failed download, or a file that is not what its hash says.
    """
    known = entry(name)
    if known.bundled:
        return _bundled(known)
    local = _local(known)
    if local is not None:
        return read_dataset(local)
    if not known.remotes:
        raise DataError(f"data set {name!r} has no public home: set BITLANE_DATA to a folder with {name}.npz")
    paths = [fetch(remote, cache_folder() / name) for remote in known.remotes]
    return _from_images(paths) if known.remotes[0].name.endswith("ubyte") else _from_libsvm(paths, known)


def location_of(known: DatasetEntry) -> str:
    """Where `load_dataset` would now take it from; "" where it cannot."""
    if known.bundled:
        return "scikit-learn"
    if _local(known) is not None:
        return "BITLANE_DATA"
    if not known.remotes:
        return ""
    folder = cache_folder() / known.name
    return "cache" if all((folder / remote.name).exists() for remote in known.remotes) else "download"


def _local(known: DatasetEntry) -> Path | None:
    root = os.environ.get("BITLANE_DATA")
    path = Path(root) / f"{known.name}.npz" if root else None
    return path if path is not None and path.exists() else None


# --- fetching ------------------------------------------------------------------------------------
def fetch(remote: Remote, folder: Path) -> Path:
    """The unpacked file of `remote` in `folder`, fetched and checked if it is not there yet.

    The file appears under its name only when it is whole and its hash is right.
    Raises DataError where it cannot be had; OSError where the folder cannot be written.
    """
    path = folder / remote.name
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{remote.name}.", dir=folder)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            _download(remote, out)
        _check(remote, part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return path


def _download(remote: Remote, out: IO[bytes]) -> None:
    try:
        with urllib.request.urlopen(remote.url, timeout=_TIMEOUT) as response:
            source = gzip.GzipFile(fileobj=response) if remote.url.endswith(".gz") else response
            while block := _read(remote, source):
                out.write(block)
    except urllib.error.URLError as error:
        raise DataError(f"{remote.url} cannot be fetched: {error.reason}") from error


def _read(remote: Remote, source: Any) -> bytes:
    """The next block; a failure to read is told apart from a failure to write, such as a full disk."""
    try:
        return cast(bytes, source.read(1 << 20))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{remote.url} is damaged: {error}") from error
    except OSError as error:
        raise DataError(f"{remote.url} cannot be fetched: {error}") from error


def _check(remote: Remote, path: Path) -> None:
    if not remote.digest:
        return
    algorithm, _, expected = remote.digest.partition(":")
    with path.open("rb") as file:
        found = hashlib.new(algorithm)
        while block := file.read(1 << 20):
            found.update(block)
    if found.hexdigest() != expected:
        hexdigest = found.hexdigest()
        raise DataError(f"{remote.url} is not the file it was: {algorithm} {hexdigest}, not {expected}")


# --- what the files hold -------------------------------------------------------------------------
def _bundled(known: DatasetEntry) -> Dataset:
    loader = getattr(require_extra("sklearn.datasets", f"data set {known.name!r}"), known.bundled)
    bunch = loader()
    y = np.asarray(bunch.target, np.float64)
    names = tuple(str(name) for name in bunch.feature_names)
    labels = _signs(y) if known.task == "binary" else y
    return Dataset(np.asarray(bunch.data, np.float64), labels, names, "target")


def _from_libsvm(paths: list[Path], known: DatasetEntry) -> Dataset:
    """One file: split 80/20 as the files of BITLANE_DATA are. Two files: the second is held out."""
    datasets = require_extra("sklearn.datasets", "reading libsvm files")
    try:
        parts = datasets.load_svmlight_files([str(path) for path in paths], n_features=known.features)
    except ValueError as error:
        raise DataError(f"{paths[0]} is not a libsvm file of {known.features} features: {error}") from error
    dense = [np.asarray(part.toarray() if i % 2 == 0 else part, np.float64) for i, part in enumerate(parts)]
    if known.task == "binary":
        dense[1::2] = [_signs(y) for y in dense[1::2]]
    if len(paths) == 1:
        X, y = dense
        order = np.random.default_rng(0).permutation(len(X))
        cut = int(0.8 * len(X))
        dense = [X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]]]
    names = tuple(f"x{j}" for j in range(known.features))
    return Dataset(dense[0], dense[1], names, "y", (dense[2], dense[3]))


def _signs(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Two classes as -1 and +1. LIBSVM's first class is 1; where the other is 2, +1 stays the first."""
    low, high = np.unique(y)
    positive = low if (low, high) == (1.0, 2.0) else high
    return np.where(y == positive, 1.0, -1.0)


def _from_images(paths: list[Path]) -> Dataset:
    X, y, X_test, y_test = (_idx(path) for path in paths)
    names = tuple(f"x{j}" for j in range(X[0].size))
    held_out = (X_test.reshape(len(X_test), -1).astype(np.float64), y_test.astype(np.float64))
    return Dataset(X.reshape(len(X), -1).astype(np.float64), y.astype(np.float64), names, "y", held_out)


def _idx(path: Path) -> NDArray[np.uint8]:
    """An idx file of unsigned bytes: 0, 0, 8, dimensions, then each dimension in four bytes, high first."""
    data = path.read_bytes()
    dimensions = data[3] if len(data) > 3 else 0
    start = 4 + 4 * dimensions
    shape = [int(size) for size in np.frombuffer(data[4:start], ">u4")] if len(data) >= start else []
    if data[:3] != b"\0\0\x08" or not shape or len(data) != start + int(np.prod(shape)):
        raise DataError(f"{path} is not an idx file of bytes: delete it to fetch it again")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
