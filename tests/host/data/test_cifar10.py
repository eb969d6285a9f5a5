"""Images of CIFAR-10: the unpacked public files, the archive, and errors for damaged files."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.cifar10 import from_differences, write_public_files
from tests.helpers.file_server import FileServer

from bitlane.data import cifar10
from bitlane.data.cifar10 import FOLDER, NAMES, load_cifar10
from bitlane.data.downloads import RemoteFile
from bitlane.errors import DataError

SHA1 = {  # digests of the files of the binary version, published by Apache MXNet
    "data_batch_1.bin": "aadd24acce27caa71bf4b10992e9e7b2d74c2540",
    "data_batch_2.bin": "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
    "data_batch_3.bin": "1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
    "data_batch_4.bin": "aab85764eb3584312d3c7f65fd2fd016e36a258e",
    "data_batch_5.bin": "26e2849e66a845b7f1e4614ae70f4889ae604628",
}


@pytest.fixture(autouse=True)
def small_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use two images per file and an empty cache."""
    monkeypatch.setenv("BITLANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cifar10, "ROWS", 2)


def pictures(seed: int) -> tuple[np.ndarray, np.ndarray, dict[str, bytes]]:
    """Return ten images, their classes and the five files; an image is a class byte and three planes, row by row."""
    rng = np.random.default_rng(seed)
    images, labels = rng.integers(0, 256, (10, 3, 32, 32), np.uint8), rng.integers(0, 10, 10, np.uint8)
    records = [bytes([label]) + image.tobytes() for image, label in zip(images, labels, strict=True)]
    return images, labels, {name: b"".join(records[2 * i : 2 * i + 2]) for i, name in enumerate(NAMES)}


def packed(contents: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as files:
        for name, content in contents.items():
            info = tarfile.TarInfo(f"{FOLDER}/{name}")
            info.size = len(content)
            files.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """Start a server for the archive."""
    monkeypatch.delenv("BITLANE_DATA", raising=False)
    server = FileServer()
    yield server
    server.close()


def serve(server: FileServer, monkeypatch: pytest.MonkeyPatch, archive: bytes) -> None:
    server.files["cifar.tar.gz"] = archive
    remote = RemoteFile(f"{server.url}/cifar.tar.gz", hashlib.sha256(archive).hexdigest())
    monkeypatch.setattr(cifar10, "ARCHIVE", remote)


def test_unpacked_files_of_the_data_folder_come_first_and_in_order(tmp_path, monkeypatch, seed):
    images, labels, contents = pictures(seed)
    folder = tmp_path / FOLDER
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    monkeypatch.setenv("BITLANE_DATA", str(tmp_path))
    found = load_cifar10()
    assert np.array_equal(found[0], images) and np.array_equal(found[1], labels)
    (folder / NAMES[2]).write_bytes(contents[NAMES[2]][:-1])
    with pytest.raises(DataError, match=r"data_batch_3\.bin has 6145 bytes: a file of CIFAR-10 has 6146"):
        load_cifar10()
    (folder / NAMES[2]).write_bytes(b"\x0a" + contents[NAMES[2]][1:])
    with pytest.raises(DataError, match=r"data_batch_3\.bin is not a file of CIFAR-10: it has class 10"):
        load_cifar10()
    (folder / NAMES[2]).unlink()
    with pytest.raises(DataError, match=r"has no data_batch_3\.bin: unpack the binary version of CIFAR-10 there"):
        load_cifar10()


def test_the_public_archive(server, monkeypatch, seed):
    images, labels, contents = pictures(seed)
    serve(server, monkeypatch, packed(contents))
    for _ in range(2):
        found = load_cifar10()
        assert np.array_equal(found[0], images) and np.array_equal(found[1], labels)
    assert server.requests == ["cifar.tar.gz"]


def test_an_archive_without_a_file_is_named(server, monkeypatch, seed):
    contents = pictures(seed)[2]
    del contents["data_batch_5.bin"]
    serve(server, monkeypatch, packed(contents))
    with pytest.raises(DataError, match=r"cifar\.tar\.gz is damaged .*data_batch_5\.bin.*: delete it to download it"):
        load_cifar10()


def test_the_converter_of_the_tests_undoes_differences(seed):
    images = pictures(seed)[0].astype(np.int64)
    coded = images.copy()
    coded[:, [0, 2]] -= coded[:, 1:2]
    coded[..., 1:] -= coded[..., :-1].copy()
    coded[:, :, 1:] -= coded[:, :, :-1].copy()
    assert np.array_equal(from_differences((coded % 256).astype(np.uint8)), images)


def test_the_data_folder_holds_the_public_images(data_dir, tmp_path, monkeypatch):
    if not (data_dir / "cifar10_train_b1.npz").exists():
        pytest.skip("BITLANE_DATA has no cifar10_train_b1.npz")
    folder = write_public_files(data_dir, tmp_path)
    assert {name: hashlib.sha1((folder / name).read_bytes()).hexdigest() for name in NAMES} == SHA1
    monkeypatch.setenv("BITLANE_DATA", str(tmp_path))
    monkeypatch.setattr(cifar10, "ROWS", 10_000)
    images, labels = load_cifar10()
    assert images.shape == (50_000, 3, 32, 32) and (np.bincount(labels) == 5_000).all()
