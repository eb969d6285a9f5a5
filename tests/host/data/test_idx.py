"""Reading idx files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.idx_textbook import idx_file

from bitlane.data.idx import read_idx
from bitlane.errors import DataError


@pytest.mark.parametrize("shape", [(7,), (5, 2, 3), (0, 4), (2, 300, 1)])
def test_arrays_are_read_back(shape: tuple[int, ...], tmp_path: Path, seed: int) -> None:
    array = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    (tmp_path / "f.gz").write_bytes(idx_file(array))
    found = read_idx(tmp_path / "f.gz")
    assert found.dtype == np.uint8 and np.array_equal(found, array)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not an idx file of bytes"),
        (b"not packed", r"is damaged \(Not a gzipped file"),
        (idx_file(np.ones(5, np.uint8))[:-9], r"is damaged \("),
        (gzip.compress(b"\0\0\x08", mtime=0), "is not an idx file of bytes"),
        (gzip.compress(b"\0\0\x08\x01\0\0\0\x05four", mtime=0), "is not an idx file of bytes"),
        (gzip.compress(b"\0\0\x0d\x01\0\0\0\x04four", mtime=0), "is not an idx file of bytes"),
        (gzip.compress(b"\0\0\x08\x00", mtime=0), "is not an idx file of bytes"),
    ],
)
def test_errors_name_the_damaged_file(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "f.gz").write_bytes(content)
    with pytest.raises(DataError, match=rf"f\.gz {says}.*: delete it to download it again"):
        read_idx(tmp_path / "f.gz")
