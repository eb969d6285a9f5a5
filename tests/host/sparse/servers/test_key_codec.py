"""Keys in few bytes: any keys come back, sizes near the theory, damage is found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.servers.key_codec import BLOCK, decode_keys, encode_keys

LAST = (1 << 64) - 1


def both_ways(keys: np.ndarray) -> int:
    data = encode_keys(keys)
    assert data.dtype == np.uint8
    found = decode_keys(data, len(keys))
    assert found.dtype == np.uint64 and np.array_equal(found, keys)
    return len(data)


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [0],
        [LAST],
        [0, LAST],
        [LAST, 0],
        [0, 1],
        [7, 7, 7],
        [1 << 63, (1 << 63) - 1],
        list(range(BLOCK)),
        list(range(BLOCK + 1)),
        [*range(300), LAST - 1, LAST],
    ],
)
def test_edges_come_back(keys: list[int]) -> None:
    both_ways(np.array(keys, np.uint64))


def test_any_keys_come_back(seed: int) -> None:
    draw = np.random.default_rng(seed)
    for _ in range(200):
        count = int(draw.integers(0, 3 * BLOCK))
        keys = draw.integers(0, 1 << 64, count, np.uint64) >> np.uint64(draw.integers(0, 64))
        groups = draw.integers(0, 4, count, np.uint64) << np.uint64(draw.integers(0, 62))
        both_ways(keys)
        both_ways(np.sort(keys + groups))


def test_sizes_are_near_the_theory(seed: int) -> None:
    draw = np.random.default_rng(seed)
    count = 1 << 14
    random = np.unique(draw.integers(0, 1 << 64, count, np.uint64))
    best = 64 - math.log2(count) + 1 / math.log(2)  # bits of a sorted key: log2 of 2^64n / n!
    assert best - 0.5 < 8 * both_ways(random) / count < best + 0.3
    assert both_ways(np.arange(count, dtype=np.uint64)) < 1.1 * count / 8
    near = np.unique(draw.integers(0, 20 * count, count, np.uint64))
    fields = np.sort(np.concatenate([near + np.uint64(field << 48) for field in range(5)]))
    assert both_ways(fields) < 5 * both_ways(near) + 5 * 16  # a jump costs little


def test_damage_is_found(seed: int) -> None:
    draw = np.random.default_rng(seed)
    keys = np.sort(draw.integers(0, 1 << 40, 500, np.uint64))
    data = encode_keys(keys)
    for cut in (0, 1, len(data) // 2, len(data) - 1):
        with pytest.raises(DataError, match="damaged"):
            decode_keys(data[:cut], len(keys))
    for longer in (np.append(data, np.uint8(0)), np.tile(data, 2)):
        with pytest.raises(DataError, match="do not hold 500 keys"):
            decode_keys(longer, len(keys))
    for count in (-1, 8 * len(data) + 1, 1 << 60):
        with pytest.raises(DataError, match="cannot hold"):
            decode_keys(data, count)


def test_any_bytes_give_keys_or_an_error(seed: int) -> None:
    draw = np.random.default_rng(seed)
    for _ in range(500):
        data = draw.integers(0, 256, int(draw.integers(0, 60)), np.uint8)
        count = int(draw.integers(0, 40))
        try:
            assert len(decode_keys(data, count)) == count
        except DataError as error:
            assert "damaged" in str(error)
