"""Data sets by name, and the downloader on file:// URLs."""

from __future__ import annotations

import gzip
import hashlib
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bitlane.data import datasets
from bitlane.data.datasets import DatasetEntry, Remote, fetch, list_datasets, load_dataset
from bitlane.errors import DataError
from bitlane.support.cache import cache_folder

pytest.importorskip("sklearn")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("BITLANE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def remote(path: Path, content: bytes | None = None) -> Remote:
    """`path` as a remote file, with the hash of its unpacked `content` where one is given."""
    digest = "" if content is None else f"sha256:{hashlib.sha256(content).hexdigest()}"
    return Remote(path.as_uri(), digest)


@pytest.mark.parametrize("name", [known.name for known in list_datasets() if known.bundled])
def test_bundled_sets(name: str) -> None:
    table, known = load_dataset(name), datasets.entry(name)
    assert (table.rows, table.features) == (known.rows, known.features)
    assert len(table.feature_names) == table.features
    assert table.X.dtype == np.float64
    assert datasets.location_of(known) == "scikit-learn"
    if known.task == "binary":
        assert set(table.y) == {-1.0, 1.0}


@pytest.mark.parametrize("name", [known.name for known in list_datasets() if not known.bundled])
def test_sets_of_the_data_folder(name: str, data_dir: Path) -> None:
    known = datasets.entry(name)
    if not (data_dir / f"{name}.npz").exists():
        pytest.skip(f"BITLANE_DATA has no {name}.npz")
    table = load_dataset(name)
    assert table.held_out is not None
    assert table.rows + len(table.held_out[0]) == known.rows
    assert table.features == known.features
    classes = len(np.unique(table.y))
    assert {"regression": classes > 20, "binary": classes == 2, "multiclass": classes == 10}[known.task]


def test_unknown_names_list_the_near_ones() -> None:
    with pytest.raises(DataError, match="no data set 'mnits'; did you mean mnist"):
        load_dataset("mnits")
    with pytest.raises(DataError, match="known are digits, wine"):
        load_dataset("qqqqqq")


def test_a_set_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BITLANE_DATA", raising=False)
    with pytest.raises(DataError, match="set BITLANE_DATA"):
        load_dataset("cpu_act")
    assert datasets.location_of(datasets.entry("cpu_act")) == ""
    assert datasets.location_of(datasets.entry("mnist")) == "download"


# --- the downloader ------------------------------------------------------------------------------
def test_fetch_unpacks_checks_and_keeps(tmp_path: Path, own_cache: Path) -> None:
    content = b"a file of bytes" * 1000
    packed = tmp_path / "f.gz"
    packed.write_bytes(gzip.compress(content))
    path = fetch(remote(packed, content), own_cache)
    assert path == own_cache / "f"
    assert path.read_bytes() == content
    assert [entry.name for entry in own_cache.iterdir()] == ["f"]
    packed.unlink()
    assert fetch(remote(packed, content), own_cache) == path  # not fetched again


@pytest.mark.parametrize("damage", ["missing", "hash", "truncated", "not gzip"])
def test_a_failed_fetch_leaves_nothing(tmp_path: Path, own_cache: Path, damage: str) -> None:
    content = np.random.default_rng(1).bytes(5000)
    packed = tmp_path / "f.gz"
    data = gzip.compress(content)
    if damage != "missing":
        packed.write_bytes({"hash": data, "truncated": data[:3000], "not gzip": content}[damage])
    expected = {"missing": "cannot be fetched", "hash": "is not the file it was"}.get(damage, "is damaged")
    with pytest.raises(DataError, match=expected):
        fetch(remote(packed, content + b"!" if damage == "hash" else content), own_cache)
    assert list(own_cache.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None: ...
        def write(self, _: bytes) -> None:
            raise OSError(28, "No space left on device")

    (tmp_path / "f").write_bytes(b"content")
    monkeypatch.setattr(datasets.os, "fdopen", Full)
    with pytest.raises(OSError, match="No space left"):
        fetch(remote(tmp_path / "f"), own_cache)
    assert list(own_cache.iterdir()) == []


def served(monkeypatch: pytest.MonkeyPatch, known: DatasetEntry) -> None:
    monkeypatch.delenv("BITLANE_DATA", raising=False)
    monkeypatch.setattr(datasets, "_ENTRIES", (known,))


def test_one_libsvm_file_is_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small").write_text("".join(f"{k % 2 + 1} 1:{k} 2:1\n" for k in range(10)))
    served(monkeypatch, DatasetEntry("small", "binary", 10, 3, "", (remote(tmp_path / "small"),)))
    table = load_dataset("small")
    assert table.X.shape == (8, 3)
    assert table.held_out is not None
    assert table.held_out[0].shape == (2, 3)
    X = np.concatenate([table.X, table.held_out[0]])
    y = np.concatenate([table.y, table.held_out[1]])
    assert sorted(X[:, 0]) == list(range(10))
    assert np.array_equal(y, np.where(X[:, 0] % 2 == 0, 1.0, -1.0))  # LIBSVM's class 1 is +1
    assert datasets.location_of(datasets.entry("small")) == "cache"


def test_two_libsvm_files_are_train_and_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s").write_text("-1 1:1 4:2\n1 2:1\n")
    (tmp_path / "s.t").write_text("1 1:3\n-1 2:2\n")
    known = DatasetEntry("s", "binary", 4, 4, "", (remote(tmp_path / "s"), remote(tmp_path / "s.t")))
    served(monkeypatch, known)
    table = load_dataset("s")
    assert table.X.tolist() == [[1, 0, 0, 2], [0, 1, 0, 0]]
    assert table.y.tolist() == [-1, 1]
    assert table.held_out is not None
    assert table.held_out[0].tolist() == [[3, 0, 0, 0], [0, 2, 0, 0]]
    served(monkeypatch, replace(known, features=3))
    with pytest.raises(DataError, match="not a libsvm file of 3 features"):
        load_dataset("s")


def test_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(0, 256, shape, np.uint8) for shape in [(5, 2, 3), (5,), (4, 2, 3), (4,)]]
    remotes = []
    for number, array in enumerate(arrays):
        header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
        path = tmp_path / f"part{number}-ubyte.gz"
        path.write_bytes(gzip.compress(header + array.tobytes()))
        remotes.append(remote(path, header + array.tobytes()))
    served(monkeypatch, DatasetEntry("pictures", "multiclass", 9, 6, "", tuple(remotes)))
    table = load_dataset("pictures")
    assert np.array_equal(table.X, arrays[0].reshape(5, 6))
    assert np.array_equal(table.y, arrays[1])
    assert table.held_out is not None
    assert np.array_equal(table.held_out[0], arrays[2].reshape(4, 6))
    cached = cache_folder() / "pictures" / "part0-ubyte"
    cached.write_bytes(cached.read_bytes()[:-1])
    with pytest.raises(DataError, match="not an idx file"):
        load_dataset("pictures")


def test_the_data_folder_and_the_public_files_agree(data_dir: Path) -> None:
    """The hashes of the public idx files are those of the arrays in the data folder."""
    with np.load(data_dir / "mnist.npz") as arrays:
        labels = arrays["y_test"]
    content = b"\0\0\x08\x01" + struct.pack(">I", len(labels)) + labels.tobytes()
    digest = datasets.entry("mnist").remotes[3].digest
    assert digest == "sha256:" + hashlib.sha256(content).hexdigest()
