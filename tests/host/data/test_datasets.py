"""Data sets by name: from scikit-learn, from a folder, and downloaded from a local server."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.file_server import FileServer
from tests.helpers.idx_textbook import idx_file

from bitlane.data import catalog, datasets
from bitlane.data.catalog import DatasetEntry, TableInArchive, find_dataset, list_datasets
from bitlane.data.datasets import load_dataset
from bitlane.data.downloads import RemoteFile
from bitlane.errors import DataError

pytest.importorskip("sklearn")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test a cache of its own instead of the user's."""
    monkeypatch.setenv("BITLANE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("name", [known.name for known in list_datasets() if known.bundled])
def test_bundled_sets(name: str) -> None:
    table, known = load_dataset(name), find_dataset(name)
    assert (table.rows, table.features) == (known.rows, known.features)
    assert len(table.feature_names) == table.features
    assert table.X.dtype == np.float64
    assert datasets.location_of(known) == "scikit-learn"
    if known.task == "binary":
        assert set(table.y) == {-1.0, 1.0}


@pytest.mark.parametrize("name", [known.name for known in list_datasets() if not known.bundled])
def test_sets_of_the_data_folder(name: str, data_dir: Path) -> None:
    known = find_dataset(name)
    if not (data_dir / f"{name}.npz").exists():
        pytest.skip(f"BITLANE_DATA has no {name}.npz")
    table = load_dataset(name)
    assert table.held_out is not None
    assert table.rows + len(table.held_out[0]) == known.rows
    assert table.features == known.features
    classes = len(np.unique(table.y))
    assert {"regression": classes > 20, "binary": classes == 2, "multiclass": classes == 10}[known.task]


def test_a_data_set_without_a_public_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BITLANE_DATA", raising=False)
    with pytest.raises(
        DataError, match=r"no public server has data set 'cpu_act': set BITLANE_DATA to a folder with cpu_act\.npz"
    ):
        load_dataset("cpu_act")
    assert datasets.location_of(find_dataset("cpu_act")) == ""
    assert datasets.location_of(find_dataset("mnist")) == "download"


# --- downloaded sets -----------------------------------------------------------------------------
@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.delenv("BITLANE_DATA", raising=False)
    pytest.importorskip("pooch")
    server = FileServer()
    yield server
    server.close()


def remote(server: FileServer, name: str, content: bytes) -> RemoteFile:
    server.files[name] = content
    return RemoteFile(f"{server.url}/{name}", hashlib.sha256(content).hexdigest())


def known_only(monkeypatch: pytest.MonkeyPatch, entry: DatasetEntry) -> None:
    monkeypatch.setattr(catalog, "_ENTRIES", (entry,))


def test_one_libsvm_file_is_split(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    file = remote(server, "small", "".join(f"{k % 2 + 1} 1:{k} 2:1\n" for k in range(10)).encode())
    known_only(monkeypatch, DatasetEntry("small", "binary", 10, 3, "", (file,)))
    assert datasets.location_of(find_dataset("small")) == "download"
    table = load_dataset("small")
    assert table.X.shape == (8, 3)
    assert table.held_out is not None
    assert table.held_out[0].shape == (2, 3)
    X = np.concatenate([table.X, table.held_out[0]])
    y = np.concatenate([table.y, table.held_out[1]])
    assert sorted(X[:, 0]) == list(range(10))
    assert np.array_equal(y, np.where(X[:, 0] % 2 == 0, 1.0, -1.0))  # class 1 of LIBSVM becomes +1
    assert datasets.location_of(find_dataset("small")) == "cache"


def test_two_libsvm_files_are_train_and_test(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    files = (remote(server, "s", b"-1 1:1 4:2\n1 2:1\n"), remote(server, "s.t", b"1 1:3\n-1 2:2\n"))
    known = DatasetEntry("s", "binary", 4, 4, "", files)
    known_only(monkeypatch, known)
    table = load_dataset("s")
    assert table.X.tolist() == [[1, 0, 0, 2], [0, 1, 0, 0]]
    assert table.y.tolist() == [-1, 1]
    assert table.held_out is not None
    assert table.held_out[0].tolist() == [[3, 0, 0, 0], [0, 2, 0, 0]]
    known_only(monkeypatch, replace(known, features=3))
    with pytest.raises(DataError, match="not a libsvm file with 3 features"):
        load_dataset("s")


def test_images(server: FileServer, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(0, 256, shape, np.uint8) for shape in [(5, 2, 3), (5,), (4, 2, 3), (4,)]]
    files = [remote(server, f"part{i}-ubyte.gz", idx_file(array)) for i, array in enumerate(arrays)]
    known_only(monkeypatch, DatasetEntry("pictures", "multiclass", 9, 6, "", tuple(files)))
    table = load_dataset("pictures")
    assert table.held_out is not None
    found = (table.X, table.y, *table.held_out)
    for each, array in zip(found, arrays, strict=True):
        assert each.dtype == np.float64 and np.array_equal(each, array.reshape(each.shape))
    assert table.X.shape == (5, 6) and table.held_out[0].shape == (4, 6)


def archive(member: str, text: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as files:
        info = tarfile.TarInfo(member)
        info.size = len(text)
        files.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


@pytest.mark.parametrize("separator", [",", ", ", " "])
def test_a_table_in_an_archive(server: FileServer, monkeypatch: pytest.MonkeyPatch, separator: str) -> None:
    text = "".join(f"{k}{separator}-1.5{separator}1e{k % 3}\n" for k in range(5))
    file = remote(server, "t.tgz", archive("folder/t.data", text))
    table = TableInArchive("folder/t.data", columns=(2, 0), target=1)
    known = DatasetEntry("t", "regression", 5, 2, "", (file,), table)
    known_only(monkeypatch, known)
    found = load_dataset("t")
    assert found.X.shape == (4, 2) and found.held_out is not None and set(found.y) == {-1.5}
    X = np.concatenate([found.X, found.held_out[0]])
    assert np.array_equal(X[np.argsort(X[:, 1])], [[1, 0], [10, 1], [100, 2], [1, 3], [10, 4]])
    known_only(monkeypatch, replace(known, rows=6))
    with pytest.raises(DataError, match=r"t\.tgz: folder/t\.data has shape \(5, 3\), expected \(6, 3\)"):
        load_dataset("t")
    known_only(monkeypatch, replace(known, table=replace(table, member="u.data")))
    with pytest.raises(DataError, match=r"t\.tgz has no table u\.data .*: delete it to download it again"):
        load_dataset("t")


def test_cadata_has_the_same_rows_from_its_archive_and_from_the_data_folder(
    server: FileServer, monkeypatch: pytest.MonkeyPatch, data_dir: Path
) -> None:
    """The archive's columns are longitude, latitude, age, rooms, bedrooms, population, households, income, value."""
    with np.load(data_dir / "cadata.npz") as arrays:
        X = np.concatenate([arrays["X_train"], arrays["X_test"]])
        y = np.concatenate([arrays["y_train"], arrays["y_test"]])
    rows = np.empty((len(X), 9), np.float32)
    rows[np.random.default_rng(0).permutation(len(X))] = np.c_[X[:, [7, 6, 1, 2, 3, 4, 5, 0]], y]
    assert rows[0].tolist() == [np.float32(value) for value in (-122.23, 37.88, 41, 880, 129, 322, 126, 8.3252, 452600)]
    text = "".join(",".join(f"{value:.7g}" for value in row) + "\n" for row in rows.tolist())
    file = remote(server, "5976036", archive("CaliforniaHousing/cal_housing.data", text))
    known_only(monkeypatch, replace(find_dataset("cadata"), files=(file,)))
    found = load_dataset("cadata")
    monkeypatch.setenv("BITLANE_DATA", str(data_dir))
    expected = load_dataset("cadata")
    assert found.held_out is not None and expected.held_out is not None
    for a, b in zip((found.X, found.y, *found.held_out), (expected.X, expected.y, *expected.held_out), strict=True):
        assert np.array_equal(a.astype(np.float32), b)
