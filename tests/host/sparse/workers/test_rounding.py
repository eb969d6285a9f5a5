"""Gradients as integers: nearest or right on average; sums that float32 has; ternary rows."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from bitlane.sparse.servers.row_codecs import UNIT, scales_of
from bitlane.sparse.workers.rounding import EXACT, LIMIT, add_rows, to_nearest_ternary, to_ternary, to_units

DRAWS = 4000


def one_group(rows: np.ndarray) -> np.ndarray:
    return np.array([rows.shape[1]])


def units_of(gradients: np.ndarray, bits: int, seed: int = 0) -> np.ndarray:
    out = np.empty(gradients.shape, np.int64)
    assert to_units(gradients, one_group(gradients), bits, np.uint64(seed), out) == -1
    return out


def test_nearest_units(seed: int) -> None:
    draw = np.random.default_rng(seed)
    gradients = (draw.normal(size=(100, 4)) * 10.0 ** draw.uniform(-7, 2, (100, 1))).astype(np.float32)
    for found, value in zip(units_of(gradients, 0).ravel().tolist(), gradients.ravel().tolist(), strict=True):
        assert abs(found - Fraction(value) * (1 << 20)) <= Fraction(1, 2)


@pytest.mark.parametrize("bits", [1, 2, 5, 16])
def test_entry_bits_are_kept_and_right_on_average(bits: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    row = (draw.normal(size=(1, 20)) * 10.0 ** draw.uniform(-5, 2)).astype(np.float32)
    found = units_of(np.repeat(row, DRAWS, 0), bits, seed)
    largest = np.abs(row).max() / UNIT
    step = max(1, 2 ** int(np.ceil(np.log2(largest / (2**bits - 1)))))
    assert np.all(found % step == 0) and np.abs(found).max() <= step * (2**bits - 1)
    error = found.mean(0) - row[0].astype(np.float64) / UNIT
    assert np.abs(error).max() <= 6 * 0.5 * step / np.sqrt(DRAWS) + 3 * step / DRAWS


@pytest.mark.parametrize("bad", [2048.0, -1e30, np.inf, np.nan])
def test_too_large_is_found(bad: float) -> None:
    gradients = np.zeros((3, 2), np.float32)
    gradients[1, 1] = bad
    assert to_units(gradients, one_group(gradients), 0, np.uint64(0), np.empty((3, 2), np.int64)) == 1


def test_sums_are_numbers_that_float32_has() -> None:
    rows = np.array([[5, -7], [1 << 24, 1 << 30]], np.int32)
    totals = np.array([[1, 2], [10, 20], [1, 3]], np.int64)
    assert add_rows(rows, np.array([0, -1, 1]), totals) == -1
    assert totals.tolist() == [[6, -5], [10, 20], [1 << 24, 1 << 30]]  # 2^24 + 1 and 2^30 + 3 are between two
    assert totals.astype(np.float32).astype(np.int64).tolist() == totals.tolist()
    totals = np.array([[0, 0], [0, 1 << 30]], np.int64)
    assert add_rows(rows, np.array([0, 1]), totals) == 1
    assert add_rows(np.array([[LIMIT]], np.int32), np.array([0]), np.zeros((1, 1), np.int64)) == -1


def test_ternary_is_right_on_average(seed: int) -> None:
    draw = np.random.default_rng(seed)
    row = draw.integers(-EXACT, EXACT + 1, (1, 12)) >> draw.integers(0, 24)
    rows = np.repeat(row, DRAWS, 0)
    symbols, scales = np.empty(rows.shape, np.int8), np.empty((DRAWS, 1), np.uint8)
    to_ternary(rows, one_group(rows), np.uint64(seed), symbols, scales)
    scale = int(scales_of(scales[0])[0])
    largest = int(np.abs(row).max())
    assert len(set(scales[:, 0].tolist())) == 1 and largest <= scale <= 9 / 8 * largest
    assert np.all((symbols == 0) | (symbols == np.sign(row)))
    assert np.abs(symbols.mean(0) * scale - row[0]).max() <= 6 * 0.5 * scale / np.sqrt(DRAWS) + 3 * scale / DRAWS


@pytest.mark.parametrize("nearest", [False, True])
def test_ternary_of_one_value_keeps_its_sign(nearest: bool) -> None:
    symbols, scales = np.empty((4, 1), np.int8), np.empty((4, 1), np.uint8)
    rows, group = np.array([[0], [-3], [12], [-(1 << 24)]]), np.array([1])
    if nearest:
        to_nearest_ternary(rows, group, symbols, scales)
    else:
        to_ternary(rows, group, np.uint64(1), symbols, scales)
    assert (symbols * scales_of(scales))[:, 0].tolist() == [0, -3, 12, -(1 << 24)]  # 4 bits hold these


def test_each_group_is_rounded_on_its_own(seed: int) -> None:
    draw = np.random.default_rng(seed)
    large, small = draw.normal(size=(50, 2)).astype(np.float32), draw.normal(size=(50, 5)).astype(np.float32) / 1000
    large += np.copysign(np.float32(0.5), large)
    both, groups = np.hstack([large, small]), np.array([2, 5])
    units = np.empty(both.shape, np.int64)
    assert to_units(both, groups, 8, np.uint64(seed), units) == -1
    assert np.abs(units[:, 2:] * UNIT - small).max() < 1e-3 * 5 / 128
    for ternary in (to_nearest_ternary, lambda *arguments: to_ternary(*arguments[:2], np.uint64(seed), *arguments[2:])):
        symbols, scales = np.empty(units.shape, np.int8), np.empty((50, 2), np.uint8)
        ternary(units, groups, symbols, scales)
        sizes = scales_of(scales) * UNIT
        assert np.all(sizes[:, 1] < 0.01) and sizes[:, 0].min() > 0.01
        assert symbols[:, :2].any() and symbols[:, 2:].any()


def test_nearest_ternary_is_the_best_of_all(seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows = draw.integers(-EXACT, EXACT + 1, (60, 4)) >> draw.integers(0, 20, (60, 1))
    rows[:2] = [[0] * 4, [5] * 4]
    symbols, scales = np.empty(rows.shape, np.int8), np.empty((60, 1), np.uint8)
    to_nearest_ternary(rows, one_group(rows), symbols, scales)
    found = ((rows - symbols * scales_of(scales)) ** 2).sum(axis=1)
    every = np.array(list(product([-1, 0, 1], repeat=4)))
    for row, error in zip(rows.astype(np.float64), found.tolist(), strict=True):
        products, ones = every @ row, np.maximum((every**2).sum(axis=1), 1)
        best = (row**2).sum() - (np.maximum(products, 0) ** 2 / ones).max()  # least squares for each set of symbols
        assert best <= error + 1e-6 <= best + (row**2).sum() / 64 + 4 + 1e-6  # a scale is up to 1/8 above the best
