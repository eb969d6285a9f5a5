"""Keys and words are the same numbers in another order: against the steps in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.sparse_tables import FULL, MARKED, mixed, unmixed

pytest.importorskip("numba")

from bitlane.sparse.tables.mixing import key_of, keys_of, word_of, words_of


def some_keys(seed: int, count: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    special = [0, 1, FULL, FULL - 1, 1 << 63, MARKED, *(1 << np.arange(63)).tolist()]
    return np.concatenate([np.array(special, np.uint64), rng.integers(0, FULL, count, np.uint64, endpoint=True)])


def test_words_are_those_of_the_steps_in_python(seed):
    keys = some_keys(seed, 1000)
    expected = [mixed(key) for key in keys.tolist()]
    assert words_of(keys).tolist() == expected
    assert [int(word_of(key)) for key in keys] == expected


def test_keys_come_back(seed):
    keys = some_keys(seed, 100_000)
    np.testing.assert_array_equal(keys_of(words_of(keys)), keys)
    np.testing.assert_array_equal(words_of(keys_of(keys)), keys)
    assert [int(key_of(word)) for word in keys[:100]] == [unmixed(word) for word in keys[:100].tolist()]


@pytest.mark.parametrize("step", [1, 1 << 32, 1 << 44])
def test_words_of_regular_keys_are_even(seed, step):
    """256 parts of the words, 1,000 expected in each: the standard deviation is 32, and 8 of them are 253."""
    start = np.random.default_rng(seed).integers(0, FULL, dtype=np.uint64)
    keys = start + np.arange(256_000, dtype=np.uint64) * np.uint64(step)
    parts = np.bincount((words_of(keys) >> np.uint64(56)).astype(np.int64), minlength=256)
    assert abs(parts - 1000).max() < 253
