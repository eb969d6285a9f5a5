"""The loops of frozen tables: remainders of every number of bits, against integers of Python."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.sparse_tables import unmixed

pytest.importorskip("numba")

from bitlane.sparse.tables import packing


@pytest.mark.parametrize("bucket_bits", [4, 5, 17, 20])
def test_words_are_packed_bit_by_bit(seed, bucket_bits):
    rng = np.random.default_rng(seed)
    words = np.unique(rng.integers(0, 2**64 - 1, 200, np.uint64, endpoint=True))
    bits = 64 - bucket_bits
    index, remainders = np.zeros((1 << bucket_bits) + 1, np.uint32), np.zeros(bits * len(words) // 64 + 2, np.uint64)
    first, rest = words[:77], words[77:]
    assert packing.pack(index, remainders, bucket_bits, first, 0, np.uint64(0)) == 77
    assert packing.pack(index, remainders, bucket_bits, rest, 77, first[-1]) == len(rest)
    packing.close_index(index)
    whole = sum(int(word) << (64 * i) for i, word in enumerate(remainders))
    expected = sum((int(word) % 2**bits) << (bits * i) for i, word in enumerate(words))
    assert whole == expected
    buckets = words >> np.uint64(bits)
    np.testing.assert_array_equal(index, np.searchsorted(buckets, np.arange(len(index), dtype=np.uint64)))
    back = np.empty(50, np.uint64)
    packing.unpack(index, remainders, bucket_bits, 60, back)
    np.testing.assert_array_equal(back, words[60:110])
    ranks = np.empty(len(words), np.int64)
    packing.find(index, remainders, bucket_bits, np.array([unmixed(w) for w in words.tolist()], np.uint64), ranks)
    np.testing.assert_array_equal(ranks, np.arange(len(words)))


def test_words_out_of_order_end_the_packing():
    index, remainders = np.zeros(17, np.uint32), np.zeros(10, np.uint64)
    words = np.array([3, 5, 5, 9], np.uint64)
    assert packing.pack(index, remainders, 4, words, 0, np.uint64(0)) == 2
    assert packing.pack(index, remainders, 4, words[:1], 1, np.uint64(3)) == 0


@pytest.mark.parametrize("count", [0, 1, 11, 12, 13, 23, 24, 25, 63, 64, 65])
def test_any_number_of_keys_passes_the_stages(count):
    """A key passes three stages, 12 keys apart."""
    words = np.arange(1, 101, dtype=np.uint64) << np.uint64(56)
    index, remainders = np.zeros(17, np.uint32), np.zeros(100, np.uint64)
    packing.pack(index, remainders, 4, words, 0, np.uint64(0))
    packing.close_index(index)
    keys = np.array([unmixed(int(word)) for word in words[:count]], np.uint64)
    ranks = np.full(count, -2)
    packing.find(index, remainders, 4, keys, ranks)
    assert ranks.tolist() == list(range(count))
