"""Words against a packer of Python integers, and the speed of packing."""

import time

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.layout import (
    Geometry,
    master_weights,
    pack_base,
    pack_draws,
    pack_master,
    pack_model,
    unpack_base,
    unpack_draws,
    unpack_master,
    unpack_model,
)
from bitlane.quantize import Precision, base_codes, draw_codes

SHAPES = [(1, 1), (3, 31), (4, 32), (5, 33), (9, 100)]


def word(digits):
    return sum(int(digit) << 2 * j for j, digit in enumerate(digits))


def packed_row(codes, digits):
    """Words of a row: for each chunk, each digit of up to 32 codes, the most significant first."""
    words = []
    for first in range(0, len(codes), 32):
        chunk = codes[first : first + 32]
        words += [word([code >> 2 * k & 3 for code in chunk]) for k in reversed(range(digits))]
    return words


def packed_base(codes, labels, digits):
    words = []
    for row, code in enumerate(codes):
        if row % 4 == 0:
            words.append(sum((label & 0xFFFF) << 16 * i for i, label in enumerate(labels[row : row + 4])))
        words += packed_row(code, digits)
    return words


def random_data(seed, rows, n, digits):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 1 << 2 * digits, (rows, n), dtype=np.uint64).astype(np.uint32)
    labels = rng.integers(-32768, 32768, rows).astype(np.int16)
    draws = rng.integers(0, 4, (rows, n)).astype(np.uint8)
    return codes, labels, draws


@pytest.mark.parametrize(("rows", "n"), SHAPES)
@pytest.mark.parametrize("digits", [0, 1, 3, 4, 5, 16])
def test_words_are_those_of_the_layout(seed, rows, n, digits):
    codes, labels, draws = random_data(seed, rows, n, digits)
    geometry = Geometry(n, rows, digits, True)
    base = pack_base(codes, labels, geometry)
    drawn = pack_draws(draws, geometry)
    assert base.dtype == drawn.dtype == np.uint64
    assert base.tolist() == packed_base(codes.tolist(), labels.tolist(), digits)
    assert drawn.tolist() == [w for row in draws.tolist() for w in packed_row(row, 1)]
    assert (len(base), len(drawn)) == (geometry.base_words, geometry.draw_words)
    assert geometry.beats == len(base) + len(drawn)

    again, labels_again = unpack_base(base, geometry)
    assert np.array_equal(again, codes) and np.array_equal(labels_again, labels)
    assert np.array_equal(unpack_draws(drawn, geometry), draws)


def test_blocks_join_at_label_words(seed, monkeypatch):
    codes, labels, draws = random_data(seed, 29, 40, 3)
    geometry = Geometry(40, 29, 3, True)
    whole, drawn = pack_base(codes, labels, geometry), pack_draws(draws, geometry)
    monkeypatch.setattr("bitlane.layout.BLOCK_ROWS", 8)
    assert np.array_equal(pack_base(codes, labels, geometry), whole)
    assert np.array_equal(pack_draws(draws, geometry), drawn)
    tail = pack_base(codes[12:], labels[12:], Geometry(40, 17, 3, True))
    assert np.array_equal(tail, whole[geometry.base_offset(12) :])


def test_bounds():
    geometry = Geometry(90, 1000, 1, True)
    assert geometry.chunks == 3 and geometry.row_words == 6
    assert geometry.raw_bound == 1000 * (90 * 4 + 16) / 64
    assert geometry.layout_bound == 1000 * (96 * 4 + 16) / 64 == geometry.beats


def test_model_words(seed):
    master = np.random.default_rng(seed).integers(-(2**31), 2**31, 37).astype(np.int32)
    words = pack_master(master)
    assert len(words) == 2 * 16 == Geometry(37, 1, 1, False).model_words
    padded = [*master.tolist(), *[128] * 27]
    pairs = zip(padded[::2], padded[1::2], strict=True)
    assert words.tolist() == [(low & 0xFFFFFFFF) | (high & 0xFFFFFFFF) << 32 for low, high in pairs]
    assert unpack_master(words, 37).tolist() == master.tolist()


def test_model_weights():
    weights = np.array([0, 1, -8, 7.9999, 2.0**-28, 100, -100])
    assert master_weights(weights)[:3].tolist() == [128, (1 << 28) + 128, 128 - (1 << 31)]
    assert master_weights(weights)[5:].tolist() == [2**31 - 1, -(2**31)]
    assert unpack_model(pack_model(weights), 7)[:5] == pytest.approx(weights[:5], abs=2.0**-29)


@pytest.mark.parametrize(
    "change", [{"features": 0}, {"rows": 0}, {"base_digits": 17}, {"base_digits": 0, "draws": False}]
)
def test_geometries_that_are_none(change):
    with pytest.raises(DataError):
        Geometry(**{"features": 3, "rows": 3, "base_digits": 1, "draws": True} | change)


def test_arrays_of_another_shape():
    geometry = Geometry(3, 5, 1, True)
    codes = np.zeros((5, 4), np.uint32)
    with pytest.raises(DataError, match=r"codes has shape \(5, 4\).*\(5, 3\)"):
        pack_base(codes, np.zeros(5, np.int16), geometry)
    with pytest.raises(DataError, match="labels"):
        pack_base(codes[:, :3], np.zeros(4, np.int16), geometry)
    with pytest.raises(DataError, match="words"):
        unpack_draws(np.zeros(4, np.uint64), geometry)


def test_a_typical_table_takes_less_than_a_second(seed):
    values = np.random.default_rng(seed).uniform(-1, 1, (50_000, 90))
    labels = np.zeros(50_000, np.int16)

    def encode():
        began = time.perf_counter()
        for precision in (Precision(4), Precision(8), Precision(32, "full")):
            geometry = Geometry(90, 50_000, precision.base_digits, precision.draws)
            pack_base(base_codes(values, precision), labels, geometry)
            if precision.draws:
                pack_draws(draw_codes(values, precision, np.random.default_rng(seed)), geometry)
        return time.perf_counter() - began

    assert min(encode() for _ in range(3)) < 1
