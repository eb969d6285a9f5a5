"""The indices of the largest magnitudes, against a sort of Python numbers."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from bitlane.compress.codecs.largest import BLOCK, largest, sampled_threshold


def by_sorting(values: np.ndarray, count: int) -> list[int]:
    numbers = values.tolist()
    order = sorted(range(len(numbers)), key=lambda index: (-abs(numbers[index]), index))
    return sorted(index for index in order[:count] if numbers[index] != 0)


def vectors(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    sparse = rng.standard_normal(n) * (rng.random(n) < 0.02)
    periodic = np.where(np.arange(n) % 7 == 0, 1000.0, 1.0) * rng.standard_normal(n)
    return {
        "normal": rng.standard_normal(n),
        "heavy": rng.standard_t(1, n),
        "ties": rng.integers(-3, 4, n),
        "alike": np.full(n, -2.5),
        "zeros": np.zeros(n),
        "even": np.where(np.arange(n) % 2 == 0, 1000.0, 1.0) * rng.standard_normal(n),  # sampled: large values only
        "odd": np.where(np.arange(n) % 2 == 1, 1000.0, 1.0) * rng.standard_normal(n),  # sampled: no large value
        "sparse": sparse,
        "periodic": periodic,
        "denormal": rng.standard_normal(n) * 1e-44,
        "sorted": np.sort(rng.standard_normal(n)),
    }


@pytest.mark.parametrize("n", [0, 1, 2, 100, 10_000])
def test_the_result_is_that_of_a_sort(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    for name, vector in vectors(rng, n).items():
        values = vector.astype(np.float32)
        for count in {0, 1, n // 1000, n // 20, n // 3, n, n + 5}:
            found = largest(values, count)
            assert found.dtype == np.int64
            assert found.tolist() == by_sorting(values, count), (name, count)


def test_the_threshold_passes_few_values_too_many(seed: int) -> None:
    """The sampled threshold passes at most three times the values asked for, and rarely too few."""
    rng = np.random.default_rng(seed)
    passed = []
    for _ in range(30):
        values = rng.standard_t(3, 200_000).astype(np.float32)
        passed.append(int((np.abs(values) >= sampled_threshold(values, 2000)).sum()))
    assert max(passed) < 6000 and np.mean(np.array(passed) >= 2000) > 0.9


@pytest.mark.parametrize("name", ["normal", "alike", "odd", "sorted"])
def test_memory_is_bounded_by_the_wanted_values(seed: int, name: str) -> None:
    """Also for vectors of which the sample tells nothing, or the wrong thing."""
    n, count = 3_000_000, 3000
    values = vectors(np.random.default_rng(seed), n)[name].astype(np.float32)
    tracemalloc.start()
    try:
        found = largest(values, count)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    magnitudes = np.abs(values)
    assert len(found) == count and magnitudes[found].min() == np.partition(magnitudes, n - count)[n - count]
    assert peak < 45 * count + 30e6


def test_several_blocks_give_the_result_of_a_sort(seed: int) -> None:
    n = 3 * BLOCK // 2 + 1
    for name, vector in vectors(np.random.default_rng(seed), n).items():
        values = vector.astype(np.float32)
        order = np.argsort(-np.abs(values), kind="stable")
        for count in (7, n // 20, n // 2):
            first = order[:count]
            assert np.array_equal(largest(values, count), np.sort(first[values[first] != 0])), (name, count)
