"""What the tests of tables share: adversarial keys, the mixing in plain Python, and the layout from its definition."""

from __future__ import annotations

from functools import cache

import numpy as np
from hypothesis import strategies as st

FULL = 2**64 - 1
FACTORS = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@cache
def mixed(key: int) -> int:
    """The word of a key: the finalizer of splitmix64."""
    for shift, factor in zip((30, 27), FACTORS, strict=True):
        key = (key ^ (key >> shift)) * factor & FULL
    return key ^ (key >> 31)


def unmixed(word: int) -> int:
    """The key of a word, by undoing the xors bit group by bit group."""

    def undone(value: int, shift: int) -> int:
        found = value
        for _ in range(64 // shift + 1):
            found = value ^ (found >> shift)
        return found

    word = undone(word, 31)
    for shift, factor in zip((27, 30), reversed(FACTORS), strict=True):
        word = undone(word * pow(factor, -1, 2**64) & FULL, shift)
    return word


MARKED = unmixed(FULL)  # the key whose word is equal to the mark of an empty slot
PREFIXES = [0, 0x7FFF_FFFF_FFFF_F000, FULL - 0xFFF]  # words whose home is the first line, one in the middle, the last
KEYS = st.one_of(
    st.sampled_from([0, 1, FULL, FULL - 1, MARKED, unmixed(FULL - 1), unmixed(0), unmixed(1)]),
    st.integers(0, 300),
    st.integers(0, 2**24 - 1).map(lambda high: high << 40),  # the same low bits
    st.tuples(st.sampled_from(PREFIXES), st.integers(0, 0xFFF)).map(lambda pair: unmixed(pair[0] + pair[1])),
    st.integers(0, FULL),
)


def keys_in_order(keys) -> list[int]:
    """Keys as a table lists them: the marked one, then by word."""
    return sorted(keys, key=lambda key: -1 if key == MARKED else mixed(key))


def the_layout_is_right(table) -> None:
    """Words ascend, and each lies in its home or directly after smaller ones; eight slots at the end are empty."""
    words = table._storage.words
    lower, upper, frontier = table._storage.layout.tolist()
    assert lower <= upper and (words[-8:] == FULL).all()
    slots = np.flatnonzero(words[1:] != FULL) + 1
    found = words[slots].tolist()
    assert found == sorted(set(found))
    homes = [1 + 8 * (word * (upper if word >= frontier else lower) >> 64) for word in found]
    index = np.arange(len(found))
    # slot(i) = max(home(i), slot(i - 1) + 1) = max over j <= i of home(j) + i - j
    np.testing.assert_array_equal(slots, np.maximum.accumulate(np.array(homes, np.int64) - index) + index)
