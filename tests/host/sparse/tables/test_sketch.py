"""The sketch counts no key too low, and few keys too high."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.properties import share

from bitlane.errors import DataError
from bitlane.sparse.tables.sketch import Admission, Sketch

pytest.importorskip("numba")

WORDS = st.lists(st.integers(0, 20), max_size=200)


@share(0.2)
@given(WORDS, st.integers(1, 5), st.sampled_from([4, 8, 64, 1 << 16]))
def test_a_key_enters_never_later_than_its_sighting(words, sightings, cells):
    """Whatever the size: with few cells it enters earlier."""
    sketch = Sketch(Admission(sightings, cells))
    admitted = sketch.admitted(np.array(words, np.uint64))
    seen = Counter()
    for word, enters in zip(words, admitted.tolist(), strict=True):
        seen[word] += 1
        assert enters or seen[word] < sightings
    assert sketch.cells.max(initial=0) <= sightings


def test_alone_in_its_cells_a_key_enters_exactly_then(seed):
    """One word has all the cells."""
    word = np.random.default_rng(seed).integers(0, 1 << 64, dtype=np.uint64)
    sketch = Sketch(Admission(255, 64))
    assert np.flatnonzero(sketch.admitted(np.full(300, word)))[0] == 254
    assert sketch.admitted(np.full(1, word)).all()


def test_few_keys_enter_early(seed):
    """100,000 keys in 2^22 cells, once each. One enters early if all four of its cells have been met before.

    At most 0.095 of each part of the cells have: 0.095^4 of 100,000 keys are 8. 40 are eleven standard deviations more.
    """
    words = np.random.default_rng(seed).integers(0, 1 << 64, 100_000, dtype=np.uint64)
    sketch = Sketch(Admission(2))
    assert np.count_nonzero(sketch.admitted(words)) < 40
    assert sketch.admitted(words).all()


def test_parts_of_a_batch_count_as_the_batch(seed):
    words = np.random.default_rng(seed).integers(0, 200, 1000, dtype=np.uint64)
    one, other = (Sketch(Admission(3, 512, halve_every=70)) for _ in range(2))
    parts = [one.admitted(part) for part in np.array_split(words, 13)]
    np.testing.assert_array_equal(np.concatenate(parts), other.admitted(words))
    np.testing.assert_array_equal(one.cells, other.cells)


def test_halving_forgets():
    """Ten sightings of one word; then twenty of others halve its count twice."""
    word, others = np.full(10, 5, np.uint64), np.arange(100, 120, dtype=np.uint64)
    sketch = Sketch(Admission(12, 1 << 20, halve_every=10))
    assert not sketch.admitted(word).any() and sketch.cells.max() == 5
    assert not sketch.admitted(others).any() and sketch.cells.max() == 1
    assert np.flatnonzero(sketch.admitted(np.full(9, 5, np.uint64))).tolist() == []
    assert sketch.cells.max() == 10 and sketch.counted == 9


def test_a_state_comes_back(seed):
    words = np.random.default_rng(seed).integers(0, 500, 2000, dtype=np.uint64)
    one, other = Sketch(Admission(4, 4096, halve_every=900)), Sketch(Admission(4, 4096, halve_every=900))
    one.admitted(words[:1000])
    other.restore(one.state())
    np.testing.assert_array_equal(one.admitted(words[1000:]), other.admitted(words[1000:]))
    with pytest.raises(DataError, match="8 cells, its state 4096"):
        Sketch(Admission(4, 8)).restore(one.state())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sightings": 0}, "sightings must be 1 to 255; got 0"),
        ({"sightings": 256}, "got 256"),
        ({"sightings": 2, "cells": 3}, "cells must be 4"),
        ({"sightings": 2, "halve_every": 0}, "halve_every must be at least 1; got 0"),
    ],
)
def test_impossible_settings(settings, message):
    with pytest.raises(DataError, match=message):
        Admission(**settings)
