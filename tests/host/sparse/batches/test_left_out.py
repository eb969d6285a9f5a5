"""Held-out rows: the same in every epoch and run, and none of them in the training."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.left_out import is_held_out
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.source import open_source

ROWS = 500


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Each row has its number as its key; lines without rows are among them."""
    found = tmp_path / "rows.libsvm"
    found.write_text("".join(f"{row % 2} {row}:1\n" + "# no row\n\n" * (row % 7 == 0) for row in range(ROWS)))
    return str(found)


def numbers(path: str, epoch: int = 0, start: int = 0, **options: Any) -> list[int]:
    source = open_source(path, test_fraction=0.2, block_bytes=900, **options)
    return [int(key) for batch in source.batches(epoch, start) for key in batch.keys]


def splitmix(number: int) -> int:
    """SplitMix64's output for the state `number`, in Python's integers."""
    z = (number + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def test_the_choice_is_splitmix64s(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, fraction = rng.integers(0, 2**62, 200), float(rng.uniform(0.01, 0.99))
    expected = [splitmix(int(row)) < int(fraction * 2.0**64) for row in rows]
    assert is_held_out(rows, fraction).tolist() == expected


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.5, 0.99])
def test_the_share_is_the_fraction(fraction: float) -> None:
    """The rows are the same in every run, so that this cannot fail by chance."""
    rows = 200_000
    share = is_held_out(np.arange(rows), fraction).mean()
    assert abs(share - fraction) < 4 * math.sqrt(fraction * (1 - fraction) / rows)


@pytest.mark.parametrize("shuffle", [0, 64])
def test_two_parts_are_all_rows(path: str, seed: int, shuffle: int) -> None:
    options = {"batch_rows": 30, "shuffle_rows": shuffle, "seed": seed}
    held = np.flatnonzero(is_held_out(np.arange(ROWS), 0.2)).tolist()
    assert numbers(path, is_test=True) == numbers(path, epoch=3, is_test=True) == held
    for epoch in range(2):
        assert sorted(numbers(path, epoch, **options)) == sorted(set(range(ROWS)) - set(held))
    assert (numbers(path, 0, **options) == numbers(path, 1, **options)) == (shuffle == 0)
    assert numbers(path, 1, **options) == numbers(path, 1, **options)


@pytest.mark.parametrize("is_test", [False, True])
@pytest.mark.parametrize("shuffle", [0, 64])
def test_a_part_begins_at_any_of_its_rows(path: str, seed: int, shuffle: int, is_test: bool) -> None:
    options = {"batch_rows": 30, "shuffle_rows": shuffle, "seed": seed, "is_test": is_test}
    whole = numbers(path, 1, **options)
    for start in (0, 1, 63, 64, 65, len(whole) // 2, len(whole) - 1, len(whole)):
        assert numbers(path, 1, start, **options) == whole[start:]


def test_batches_are_cut_where_a_whole_epoch_is_cut(path: str) -> None:
    sizes = [batch.rows for batch in open_source(path, test_fraction=0.2, batch_rows=30).batches(0, 40)]
    assert sizes[0] == 20
    assert set(sizes[1:-1]) == {30}


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, 7.0, math.nan])
def test_bad_fractions(fraction: float) -> None:
    with pytest.raises(DataError, match="is not between 0 and 1"):
        ReadOptions(test_fraction=fraction)
