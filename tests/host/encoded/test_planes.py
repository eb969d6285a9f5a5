"""Digit planes: the codes of a textbook, and the same bits in numpy and in machine code."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.helpers.compilers import has_compiler

from bitlane.contract.draws import GROUP_SETS, DrawSet, draw_words, row_words
from bitlane.contract.precision import Precision
from bitlane.encoded.planes import (
    PlaneRows,
    WordPlaces,
    c_planes,
    draw_from_planes,
    encode_planes,
    move_planes,
    plane_codes,
)
from bitlane.quantization.positions import PositionMap, position_map
from bitlane.quantization.scaling import fit_scaling

compiles = pytest.mark.skipif(not has_compiler(), reason="this machine has no C compiler")


def _textbook_digits(codes: np.ndarray, digits: int, chunks: int) -> np.ndarray:
    """The planes of codes [rows, m], one integer after the other."""
    planes = np.zeros((digits, len(codes), chunks), np.uint64)
    for i, row in enumerate(codes.tolist()):
        for digit in range(digits):
            word = [0] * chunks
            for j, code in enumerate(row):
                word[j // 32] |= (code >> 2 * (digits - 1 - digit) & 3) << 2 * (j % 32)
            planes[digit, i] = word
    return planes


def _table(random: np.random.Generator, rows: int, n: int) -> np.ndarray:
    kind = random.choice(["f4", "f8", "u1", "i2", "i4", "i8"])
    if kind[0] == "f":
        scale = 10.0 ** random.integers(-6, 7, n)
        table = (random.normal(size=(rows, n)) * scale + random.normal(size=n) * scale).astype(kind)
    else:
        info = np.iinfo(kind)
        low = max(info.min, -(10**6))
        table = random.integers(low, min(info.max, 10**6), (rows, n), endpoint=True).astype(kind)
    if random.random() < 0.3:
        table = np.asfortranarray(table)
    return table


def _case(random: np.random.Generator) -> tuple[np.ndarray, PositionMap, np.ndarray]:
    rows, n, bits = int(random.integers(1, 40)), int(random.integers(1, 130)), 2 * int(random.integers(1, 9))
    table = _table(random, rows + 1, n)
    some = table[: int(random.integers(1, rows + 2))]  # scales of fewer rows: others are clipped
    more = bits + 2 * int(random.integers(0, 3))  # of the intervals, of which the high bits are stored
    mapped = position_map(fit_scaling(some, np.zeros((len(some), 1))), Precision(more, "nearest"))
    planes = np.zeros((bits // 2, len(table), -(-len(mapped.columns) // 32)), np.uint64)
    return table, mapped, planes


@pytest.mark.parametrize("compiled", [pytest.param(True, marks=compiles), False])
def test_planes_are_the_intervals_of_exact_arithmetic(seed: int, compiled: bool) -> None:
    random = np.random.default_rng(seed)
    for _ in range(10):
        table, mapped, planes = _case(random)
        if not len(mapped.columns):
            continue
        below = mapped.base_bits - 2 * len(planes)
        clipped = encode_planes(c_planes() if compiled else None, table, mapped, planes)
        last = (1 << mapped.base_bits) - 1
        codes = np.zeros((len(table), len(mapped.columns)), np.int64)
        outside = np.zeros(len(mapped.columns), np.int64)
        for feature, (column, multiplier, offset) in enumerate(zip(*mapped[:3], strict=True)):
            for row, value in enumerate(table[:, column].tolist()):
                position = math.floor(float(Fraction(value) * Fraction(multiplier))) + int(offset)
                codes[row, feature] = min(max(position >> 20, 0), last) >> below
                beyond = max(-position, position - (last + 1 << 20)) / 2.0 ** (mapped.base_bits + 20 - 25)
                outside[feature] += beyond > 1 and position not in (-1, (last + 1 << 20) + 1)
        assert (planes == _textbook_digits(codes, *planes.shape[::2])).all()
        near = np.abs(outside - clipped)  # at the limit itself the textbook floors
        assert (near <= (outside > 0)).all()


@compiles
def test_numpy_and_machine_code_make_the_same_bits(seed: int) -> None:
    random = np.random.default_rng(seed)
    kernels = c_planes()
    for _ in range(20):
        table, mapped, planes = _case(random)
        features = len(mapped.columns)
        if not features:
            continue
        other = np.empty_like(planes)
        assert (encode_planes(kernels, table, mapped, planes) == encode_planes(None, table, mapped, other)).all()
        assert (planes == other).all()
        rows = random.integers(0, len(table), int(random.integers(1, 30)))
        chunks, digits = planes.shape[2], len(planes)
        located = PlaneRows(planes.ctypes.data + rows * chunks * 8, np.full(len(rows), planes.strides[0]), chunks)
        first = int(random.integers(0, digits))
        some = int(random.integers(1, digits - first + 1))
        stride = int(random.integers(1, 5))
        targets = [
            WordPlaces(np.zeros(len(rows) * chunks * some * stride, np.uint64), offsets, some * stride, stride)
            for offsets in [np.arange(len(rows)) * chunks * some * stride] * 2
        ]
        move_planes(kernels, located, targets[0], some, first)
        move_planes(None, located, targets[1], some, first)
        assert (targets[0].words == targets[1].words).all()
        assert (targets[0].words[targets[0].indices(some, chunks)] == planes[first : first + some, rows]).all()
        top = planes[: min(4, digits)]
        codes = [np.empty((len(table), features), np.int8) for _ in range(2)]
        for each, use in zip(codes, (kernels, None), strict=True):
            plane_codes(use, top, features, each)
        assert (codes[0] == codes[1]).all()
        if digits > first:
            _compare_draws(random, located, features, first, digits)


def _compare_draws(
    random: np.random.Generator, located: PlaneRows, features: int, base_digits: int, digits: int
) -> None:
    rows, chunks, sets = len(located.addresses), located.chunks, int(random.integers(1, 17))
    seed = int(random.integers(1 << 32))
    masks = np.array([DrawSet(seed, number).mask for number in random.integers(0, GROUP_SETS, sets)])
    of_rows = row_words(seed, range(7, 7 + rows))
    regions = [np.zeros((sets, rows * chunks * 2), np.uint64) for _ in range(2)]
    for region, use in zip(regions, (c_planes(), None), strict=True):
        target = WordPlaces(region, np.arange(rows) * chunks * 2, 2, 0)
        draw_from_planes(use, located, features, base_digits, digits, of_rows, masks, target)
    assert (regions[0] == regions[1]).all()
    low = np.zeros((rows, features), np.int64)
    for digit in range(base_digits, min(digits, base_digits + 7)):
        words = located.plane(digit)
        fields = [(words[:, j // 32] >> np.uint64(2 * (j % 32))) & np.uint64(3) for j in range(features)]
        low = low * 4 + np.stack(fields, axis=1).astype(np.int64)
    inside = (low + 0.5) / 4.0 ** min(digits - base_digits, 7)  # of an interval
    uniform = draw_words(of_rows, features) ^ masks[:, None, None]
    wanted = [((half >> np.uint32(0)) / 65536 < inside).astype(int) for half in (uniform >> 16, uniform & 0xFFFF)]
    for j in range(features):
        word = regions[0][:, (np.arange(rows) * chunks + j // 32) * 2]
        drawn = (word >> np.uint64(2 * (j % 32))) & np.uint64(3)
        assert (drawn == 2 * wanted[0][..., j] + wanted[1][..., j]).all()
