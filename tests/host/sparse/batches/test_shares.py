"""Shares of a source: each row is in exactly one; a share goes on where it stopped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.source import open_source
from bitlane.sparse.batches.stream import FolderStream

ROWS = 30_000


def write_libsvm(folder: Path) -> str:
    path = folder / "rows.libsvm"
    path.write_text("".join(f"{row % 2} {row}:1 7:0.5\n" for row in range(ROWS)))
    return str(path)


def write_parquet(folder: Path) -> str:
    for part in range(2):
        rows = np.arange(part, ROWS, 2)
        table = pa.table({"keys": [[int(row), 7] for row in rows], "label": (rows % 2).astype(np.float32)})
        pq.write_table(table, folder / f"{part}.parquet", row_group_size=7000)
    return str(folder)


def write_npz(folder: Path) -> str:
    path = folder / "rows.npz"
    keys = np.stack([np.arange(ROWS), np.full(ROWS, 7)], axis=1).reshape(-1)
    offsets, labels = np.arange(ROWS + 1) * 2, (np.arange(ROWS) % 2).astype(np.float32)
    np.savez(path, keys=keys.astype(np.uint64), offsets=offsets, labels=labels)
    return str(path)


def first_keys(path: str, share: tuple[int, int], start: int = 0, test_fraction: float | None = None) -> np.ndarray:
    options = ReadOptions(share=share, block_bytes=1 << 14, batch_rows=1000, test_fraction=test_fraction)
    batch = Batch.concatenate(list(open_source(path, options).batches(0, start)))
    return batch.keys[batch.offsets[:-1]]


@pytest.mark.parametrize("write", [write_libsvm, write_parquet, write_npz])
def test_rows_that_are_left_out_are_those_of_the_split(write, seed: int, tmp_path: Path) -> None:
    """Shares of the rows but for those that a split of one reader holds out, and each goes on anywhere."""
    path, draw = write(tmp_path), np.random.default_rng(seed)
    fraction = float(draw.choice([0.01, 0.1, 0.5, 0.9]))
    held_out = Batch.concatenate(list(open_source(path, test_fraction=fraction, is_test=True).batches(0)))
    count = int(draw.integers(1, 4))
    shares = [first_keys(path, (part, count), test_fraction=fraction) for part in range(count)]
    found = np.concatenate([*shares, held_out.keys[held_out.offsets[:-1]]])
    assert np.array_equal(np.sort(found), np.arange(ROWS))
    for part, share in enumerate(shares):
        start = int(draw.integers(1, len(share)))
        assert np.array_equal(first_keys(path, (part, count), start, fraction), share[start:])


@pytest.mark.parametrize("write", [write_libsvm, write_parquet, write_npz])
def test_each_row_is_in_one_share_and_a_share_goes_on_anywhere(write, seed: int, tmp_path: Path) -> None:
    path = write(tmp_path)
    shares = [first_keys(path, (part, 3)) for part in range(3)]
    assert np.array_equal(np.sort(np.concatenate(shares)), np.arange(ROWS))
    assert all(ROWS / 5 < len(share) < ROWS / 2 for share in shares)
    draw = np.random.default_rng(seed)
    for part, share in enumerate(shares):
        start = int(draw.integers(1, len(share)))
        assert np.array_equal(first_keys(path, (part, 3), start), share[start:])


def test_a_share_without_rows_is_empty(tmp_path: Path) -> None:
    """With more workers than pieces."""
    path = tmp_path / "few.libsvm"
    path.write_text("1 2:1\n0 3:1\n")
    found = [sum(batch.rows for batch in open_source(str(path), share=(part, 3)).batches(0)) for part in range(3)]
    assert found == [2, 0, 0]


def test_segments_of_a_stream_belong_to_one_share_each(tmp_path: Path) -> None:
    for number in range(40):
        table = pa.table({"keys": [[number]], "label": np.ones(1, np.float32)})
        pq.write_table(table, tmp_path / f"{number:03}.parquet")
    found: list[list[int]] = []
    for part in range(3):
        stream = FolderStream(tmp_path, ReadOptions(share=(part, 3)), poll_seconds=0.01)
        keys = []
        for batch in stream.batches():
            keys += batch.keys.tolist()
            if len(keys) >= 5:  # a stream does not end
                stream.stop()
        found.append(keys)
        assert keys == sorted(keys)
    assert len({key for keys in found for key in keys}) == sum(map(len, found))


def test_a_share_that_is_none_is_refused() -> None:
    with pytest.raises(DataError, match=r"^share=\(2, 2\) must be an index, from 0"):
        ReadOptions(share=(2, 2))
