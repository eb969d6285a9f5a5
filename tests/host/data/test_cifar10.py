"""CIFAR-10's images: the coded files, the public archive, and files that are neither."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from bitlane.data import cifar10
from bitlane.data.cifar10 import BATCHES, from_differences, load_cifar10
from bitlane.data.datasets import Remote
from bitlane.errors import DataError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("BITLANE_CACHE", str(tmp_path / "cache"))


def differences(images: np.ndarray) -> np.ndarray:
    """By the definition: channels less green, then left neighbours, then rows above, modulo 256."""
    coded = images.astype(np.int64)
    coded[:, 0] -= coded[:, 1]
    coded[:, 2] -= coded[:, 1]
    coded[..., 1:] -= coded[..., :-1].copy()
    coded[:, :, 1:] -= coded[:, :, :-1].copy()
    return (coded % 256).astype(np.uint8)


def pictures(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, 3, 32, 32), np.uint8), rng.integers(0, 10, count, np.uint8)


def test_differences_are_undone(seed):
    images, _ = pictures(seed, 5)
    assert np.array_equal(from_differences(differences(images)), images)


def test_files_of_the_data_folder_come_first_and_in_order(tmp_path, monkeypatch, seed):
    images, labels = pictures(seed, 10)
    for batch in BATCHES:
        part = slice(2 * batch - 2, 2 * batch)
        np.savez(tmp_path / f"cifar10_train_b{batch}.npz", D=differences(images[part]), y=labels[part])
    monkeypatch.setenv("BITLANE_DATA", str(tmp_path))
    found = load_cifar10()
    assert np.array_equal(found[0], images) and np.array_equal(found[1], labels)
    np.savez(tmp_path / "cifar10_train_b3.npz", D=images[:2, :2], y=labels[:2])
    with pytest.raises(DataError, match=r"b3\.npz is not a file of CIFAR-10 images: D is uint8 \(2, 2, 32, 32\)"):
        load_cifar10()
    (tmp_path / "cifar10_train_b3.npz").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"b3\.npz is not a file of CIFAR-10 images"):
        load_cifar10()


def test_the_public_archive(tmp_path, monkeypatch, seed):
    images, labels = pictures(seed, 10)
    records = np.concatenate([labels[:, None], images.reshape(10, -1)], axis=1)
    contents = {batch: records[2 * batch - 2 : 2 * batch].tobytes() for batch in BATCHES}
    path = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as files:
        for batch, content in contents.items():
            info = tarfile.TarInfo(f"cifar-10-batches-bin/data_batch_{batch}.bin")
            info.size = len(content)
            files.addfile(info, io.BytesIO(content))
    monkeypatch.delenv("BITLANE_DATA", raising=False)
    monkeypatch.setattr(cifar10, "HOME", Remote(path.as_uri()))
    with pytest.raises(DataError, match=r"data_batch_1\.bin is not the file it was"):
        load_cifar10()
    monkeypatch.setattr(cifar10, "BATCHES", {b: hashlib.sha1(c).hexdigest() for b, c in contents.items()})
    found = load_cifar10()
    assert np.array_equal(found[0], images) and np.array_equal(found[1], labels)


def test_the_data_folder_holds_the_public_images(data_dir):
    """The SHA-1 of the first batch, as the archive has it."""
    if not (data_dir / "cifar10_train_b1.npz").exists():
        pytest.skip("BITLANE_DATA has no cifar10_train_b1.npz")
    images, labels = load_cifar10()
    records = np.concatenate([labels[:10_000, None], images[:10_000].reshape(10_000, -1)], axis=1)
    assert hashlib.sha1(records.tobytes()).hexdigest() == BATCHES[1]
    assert len(images) == 50_000 and (np.bincount(labels) == 5_000).all()
