"""Counts of keys: exact with room, never too low, about the recent past."""

from __future__ import annotations

import numpy as np

from bitlane.sparse.workers.popularity import Popularity


def test_counts_are_exact_with_room_and_never_too_low(seed: int) -> None:
    draw = np.random.default_rng(seed)
    pool = np.unique(draw.integers(0, 1 << 64, 300, np.uint64))
    roomy, narrow, wanted = Popularity(1 << 20), Popularity(1 << 9), np.zeros(len(pool), np.int64)
    for _ in range(5):
        places = np.flatnonzero(draw.random(len(pool)) < np.linspace(0, 1, len(pool)))
        wanted[places] += 1
        for counter in (roomy, narrow):
            counter.add(pool[places])
    assert np.mean(roomy.counts(pool) == wanted) > 0.98
    assert np.all(narrow.counts(pool) >= wanted) and np.all(roomy.counts(pool) >= wanted)
    assert narrow.nbytes == 1 << 9


def test_the_largest_count_is_255() -> None:
    counter, key = Popularity(1 << 12), np.array([7], np.uint64)
    for _ in range(300):
        counter.add(key)
    assert counter.counts(key).tolist() == [255]


def test_old_sightings_count_half() -> None:
    counter, key, found = Popularity(1), np.array([3], np.uint64), []
    for _ in range(12):
        counter.add(key)
        found += counter.counts(key).tolist()
    assert found == [1, 2, 3, 4, 5, 6, 7, 8, 9, 5, 6, 7]  # halved after 10 sightings of a cell
