"""Distinct keys against Python's dict."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.sparse_tables import KEYS

from bitlane.sparse.parameters.unique import unique_keys


@given(st.lists(KEYS, max_size=60))
def test_distinct_keys_in_the_order_of_their_first_sight(keys: list[int]) -> None:
    found, index = unique_keys(np.array(keys, np.uint64))
    assert found.tolist() == list(dict.fromkeys(keys))
    assert found[index].tolist() == keys
    assert (found.dtype, index.dtype) == (np.uint64, np.int64)


def test_keys_that_cannot_be_written_are_taken() -> None:
    keys = np.array([5, 5, 3], np.uint64)
    keys.flags.writeable = False
    assert unique_keys(keys)[1].tolist() == [0, 0, 1]
