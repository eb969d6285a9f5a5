"""Loops stop at the end of their bytes."""

from __future__ import annotations

import numpy as np

from bitlane.sparse.servers import key_codec
from bitlane.sparse.servers.row_kernels import pack_rows, unpack_rows


def test_rows_are_not_read_beyond_the_end(seed: int) -> None:
    rows = np.random.default_rng(seed).integers(-(1 << 31), 1 << 31, (6, 3)).astype(np.int32)
    bits = pack_rows(rows, np.zeros(0, np.uint8), False)
    data = np.zeros(-(-bits // 8), np.uint8)
    assert pack_rows(rows, data, True) == bits
    found = np.empty_like(rows)
    assert unpack_rows(data, found) == bits and np.array_equal(found, rows)
    assert {unpack_rows(data[:cut], found) for cut in range(len(data))} == {-1}


def test_keys_are_not_read_beyond_the_end(seed: int) -> None:
    keys = np.sort(np.random.default_rng(seed).integers(0, 1 << 64, 10, np.uint64))
    keys[:3] = 1, 2, 1 << 50  # a jump in a block of others
    data, numbers = key_codec.encode_keys(keys), np.empty(10, np.uint64)
    assert -(-key_codec._read(data, numbers) // 8) == len(data)
    assert {key_codec._read(data[:cut], numbers) for cut in range(len(data))} == {-1}
