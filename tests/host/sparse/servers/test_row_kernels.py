"""Loops stop at the end of their bytes."""

from __future__ import annotations

import numpy as np

from bitlane.sparse.servers import key_codec
from bitlane.sparse.servers.row_kernels import pack_rows, size_of_rows, unpack_rows


def test_rows_are_not_read_beyond_the_end(seed: int) -> None:
    rows = np.random.default_rng(seed).integers(-(1 << 31), 1 << 31, (6, 3)).astype(np.int32)
    bits = size_of_rows(rows)
    data, found = np.zeros(-(-bits // 8), np.uint8), np.empty_like(rows)
    pack_rows(rows, data)
    assert unpack_rows(data, found) == bits and np.array_equal(found, rows)
    assert {unpack_rows(data[:cut], found) for cut in range(len(data))} == {-1}


def test_rows_of_all_sizes_come_back(seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows = draw.integers(-(1 << 31), 1 << 31, (500, 5)) >> draw.integers(0, 32, (500, 5))
    rows = (rows >> (shift := draw.integers(0, 32, (500, 1)))) << shift
    rows[:3] = [[0] * 5, [-(1 << 31), (1 << 31) - 1, 0, 1, -1], [-(1 << 31)] * 5]
    rows = rows.astype(np.int32)
    bits = size_of_rows(rows)
    data, found = np.zeros(-(-bits // 8), np.uint8), np.empty_like(rows)
    pack_rows(rows, data)
    assert unpack_rows(data, found) == bits and np.array_equal(found, rows)


def test_rows_of_few_values_are_small() -> None:
    assert size_of_rows(np.zeros((1, 9), np.int32)) == 10 + 9
    assert size_of_rows(np.full((1, 9), -(1 << 20), np.int32)) == 10 + 9 * 2  # order 1: 0, -1, 1 and -2 in two bits


def test_keys_are_not_read_beyond_the_end(seed: int) -> None:
    keys = np.sort(np.random.default_rng(seed).integers(0, 1 << 64, 10, np.uint64))
    keys[:3] = 1, 2, 1 << 50  # a jump in a block of others
    data, numbers = key_codec.encode_keys(keys), np.empty(10, np.uint64)
    assert -(-key_codec._read(data, numbers) // 8) == len(data)
    assert {key_codec._read(data[:cut], numbers) for cut in range(len(data))} == {-1}
