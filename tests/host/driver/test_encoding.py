"""The starts of an encoding: consecutive draw sets of a group, as many as fit an encoder."""

from __future__ import annotations

import numpy as np

from bitlane.contract.draws import DrawSet
from bitlane.contract.encoding import ValueType
from bitlane.contract.geometry import Geometry
from bitlane.contract.precision import Precision
from bitlane.driver.encoding import Encoding


def starts_of(numbers: list[int], at_a_time: int) -> list[list[int]]:
    """Numbers of sets in runs, by words: each follows the one before it, in the same sixteen."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1 and number % 16 and len(runs[-1]) < at_a_time:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs or [[]]


def test_starts(seed: int) -> None:
    rng, geometry = np.random.default_rng(seed), Geometry.of(Precision(4), 5, 9, 9)
    for _ in range(300):
        numbers = [int(rng.integers(40))]
        while rng.random() < 0.9:
            numbers.append(numbers[-1] + 1 if rng.random() < 0.8 else int(rng.integers(40)))
        numbers, base, at_a_time = numbers[1:], bool(rng.integers(2)), int(rng.integers(1, 9))
        sets = [DrawSet(number // 16, number % 16) for number in numbers]
        starts = list(Encoding(geometry, ValueType.INT16, base, sets).starts(at_a_time))
        found = [[16 * each.seed + each.number for each in start.sets] for _, start in starts]
        assert found == starts_of(numbers, at_a_time)
        assert [first for first, _ in starts] == [sum(map(len, found[:i])) for i in range(len(found))]
        assert [start.writes_base for _, start in starts] == [base, *[False] * (len(found) - 1)]
