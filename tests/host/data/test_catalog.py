"""The catalog of data sets and their digests."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from bitlane.data.catalog import SHA256, find_dataset, list_datasets
from bitlane.data.cifar10 import ARCHIVE
from bitlane.errors import DataError


def test_every_downloaded_file_has_a_digest() -> None:
    files = [file for entry in list_datasets() for file in entry.files] + [ARCHIVE]
    assert {file.url for file in files} == set(SHA256)
    assert all(len(file.sha256) == 64 and int(file.sha256, 16) for file in files)
    assert len({file.sha256 for file in files}) == len(files)


def test_unknown_names_suggest_similar_ones() -> None:
    with pytest.raises(DataError, match="no data set 'mnits'; did you mean mnist"):
        find_dataset("mnits")
    with pytest.raises(DataError, match="no data set 'qqqqqq'; known are digits, wine"):
        find_dataset("qqqqqq")


def test_the_digest_of_cadata_equals_that_of_scikit_learn() -> None:
    module = pytest.importorskip("sklearn.datasets._california_housing")
    (file,) = find_dataset("cadata").files
    assert (file.url, file.sha256) == (module.ARCHIVE.url, module.ARCHIVE.checksum)


@pytest.mark.parametrize(("name", "part"), [("a9a", "train"), ("a9a.t", "test")])
def test_the_digest_of_a9a_matches_the_values_in_the_data_folder(name: str, part: str, data_dir: Path) -> None:
    """The test writes LIBSVM's text from the values: a line for each row, a space after each value."""
    with np.load(data_dir / "a9a.npz") as arrays:
        X, y = arrays[f"X_{part}"], arrays[f"y_{part}"]
    lines = [f"{y:+.0f} " + "".join(f"{j + 1}:1 " for j in np.flatnonzero(x)) for x, y in zip(X, y, strict=True)]
    content = "".join(f"{line}\n" for line in lines).encode()
    (file,) = (file for file in find_dataset("a9a").files if file.name == name)
    assert hashlib.sha256(content).hexdigest() == file.sha256


@pytest.mark.parametrize(("name", "part"), [("cod-rna", "train"), ("cod-rna.t", "test")])
def test_the_digest_of_cod_rna_matches_the_values_in_the_data_folder(name: str, part: str, data_dir: Path) -> None:
    with np.load(data_dir / "cod-rna.npz") as arrays:
        X, y = arrays[f"X_{part}"].tolist(), arrays[f"y_{part}"].tolist()
    lines = [f"{y:g} " + " ".join(f"{j}:{v:g}" for j, v in enumerate(x, 1)) for x, y in zip(X, y, strict=True)]
    (file,) = (file for file in find_dataset("cod-rna").files if file.name == name)
    assert hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest() == file.sha256
