"""The data sets that `bitlane.data.datasets.load_dataset` knows, and the digest of every file that it downloads.

Each digest is of the file as its server sends it. Where they come from:

- LIBSVM's files: computed from copies whose MD5 equals the MD5 that other projects publish.
- MNIST, Fashion-MNIST and CIFAR-10: published by several projects; the authors of the last two publish the MD5.
- cadata: address and digest of scikit-learn's `fetch_california_housing`. No digest of LIBSVM's file is published.
- cpusmall: address and digest of the Julia package UCIData.jl. No digest of LIBSVM's file is published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bitlane.errors import DataError
from bitlane.support.text import near_names

from .downloads import RemoteFile

Task = Literal["regression", "binary", "multiclass"]

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"

SHA256 = {
    f"{_LIBSVM}/cod-rna": "65b7cc0689fc29bba5db8b50fab0b6446d985f4bf8f6f5dd474f7df8b2f1ab6c",
    f"{_LIBSVM}/cod-rna.t": "58cff16df896436b06343df78ccaef37a6979d819abbcadbec3cb16b93938df6",
    f"{_LIBSVM}/a9a": "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
    f"{_LIBSVM}/a9a.t": "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
    f"{_LIBSVM}/mushrooms": "f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538",
    "https://ndownloader.figshare.com/files/5976036": (
        "aaa5c9a6afe2225cc2aed2723682ae403280c4a3695a2ddda4ffb5d8215ea681"
    ),
    "https://www.dcc.fc.up.pt/~ltorgo/Regression/compact.tar.gz": (
        "9978dc18e7f41718952da6024249f2e482f96405e867b67f3eefe6d3bd4dc192"
    ),
    f"{_MNIST}/train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    f"{_MNIST}/train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    f"{_MNIST}/t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    f"{_MNIST}/t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    f"{_FASHION}/train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    f"{_FASHION}/train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    f"{_FASHION}/t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    f"{_FASHION}/t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz": (
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
    ),
}


@dataclass(frozen=True)
class TableInArchive:
    """A table of numbers inside a tar archive.

    Attributes
    ----------
    member : str
        Name of the file inside the archive: numbers separated by commas or spaces, a row on each line.
    columns : tuple of int
        Columns of the features, in the order of the data set.
    target : int
        Column of the target.
    """

    member: str
    columns: tuple[int, ...]
    target: int


@dataclass(frozen=True)
class DatasetEntry:
    """A data set that `load_dataset` knows.

    Attributes
    ----------
    name : str
    task : {"regression", "binary", "multiclass"}
    rows : int
        Number of training and held-out rows together.
    features : int
    about : str
        The content in a few words.
    files : tuple of RemoteFile
        Files to download, empty if no public server has the data set. One LIBSVM file or archive holds all rows;
        two LIBSVM files are training and held-out rows; four idx files are images and labels of both.
    table : TableInArchive or None
        The table to read if the file is an archive.
    bundled : str
        Name of the loader in `sklearn.datasets`, or "".
    """

    name: str
    task: Task
    rows: int
    features: int
    about: str
    files: tuple[RemoteFile, ...] = ()
    table: TableInArchive | None = None
    bundled: str = ""


def remote_file(url: str) -> RemoteFile:
    """Return the file at `url` with its digest from the table."""
    return RemoteFile(url, SHA256[url])


def _files(home: str, *names: str) -> tuple[RemoteFile, ...]:
    return tuple(remote_file(f"{home}/{name}") for name in names)


_IDX = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
_HOUSES = TableInArchive("CaliforniaHousing/cal_housing.data", columns=(7, 2, 3, 4, 5, 6, 1, 0), target=8)
_CPU = TableInArchive("ComputerActivity/cpu_small.data", columns=tuple(range(12)), target=12)

_ENTRIES = (
    DatasetEntry("digits", "multiclass", 1797, 64, "8 x 8 digits", bundled="load_digits"),
    DatasetEntry("wine", "multiclass", 178, 13, "wines of three growers", bundled="load_wine"),
    DatasetEntry("breast_cancer", "binary", 569, 30, "cell nuclei, benign?", bundled="load_breast_cancer"),
    DatasetEntry("diabetes", "regression", 442, 10, "disease after a year", bundled="load_diabetes"),
    DatasetEntry(
        "cadata",
        "regression",
        20640,
        8,
        "houses in California",
        _files("https://ndownloader.figshare.com/files", "5976036"),
        _HOUSES,
    ),
    DatasetEntry(
        "cpusmall",
        "regression",
        8192,
        12,
        "CPU time in user mode",
        _files("https://www.dcc.fc.up.pt/~ltorgo/Regression", "compact.tar.gz"),
        _CPU,
    ),
    DatasetEntry("cpu_act", "regression", 8192, 21, "cpusmall, all columns"),
    DatasetEntry("housing_boston", "regression", 506, 13, "houses in Boston"),
    DatasetEntry("millionsong_6719", "regression", 6719, 12, "year of a song"),
    DatasetEntry("cod-rna", "binary", 331152, 8, "non-coding RNA", _files(_LIBSVM, "cod-rna", "cod-rna.t")),
    DatasetEntry("a9a", "binary", 48842, 123, "income above 50,000?", _files(_LIBSVM, "a9a", "a9a.t")),
    DatasetEntry("mushrooms", "binary", 8124, 112, "edible mushrooms", _files(_LIBSVM, "mushrooms")),
    DatasetEntry("mnist", "multiclass", 70000, 784, "28 x 28 digits", _files(_MNIST, *_IDX)),
    DatasetEntry("fashion_mnist", "multiclass", 70000, 784, "28 x 28 clothes", _files(_FASHION, *_IDX)),
)


def list_datasets() -> tuple[DatasetEntry, ...]:
    """Return the data sets that `load_dataset` knows; those of scikit-learn, which need no network, come first."""
    return _ENTRIES


def find_dataset(name: str) -> DatasetEntry:
    """Return the entry of data set `name`.

    Raises
    ------
    DataError
        The name is unknown; the message lists similar names.
    """
    entries = {entry.name: entry for entry in list_datasets()}
    if name not in entries:
        raise DataError(f"no data set {name!r}{near_names(name, list(entries)) or '; known are ' + ', '.join(entries)}")
    return entries[name]
