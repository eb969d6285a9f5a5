"""Rows in few bytes: exact where they are exact, right on average where they are rounded, damage is found."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.servers.row_codecs import (
    CHUNK_DTYPES,
    UNIT,
    GradientChunk,
    decode_chunks,
    decode_rows,
    encode_chunks,
    encode_rows,
    scales_of,
)
from bitlane.sparse.servers.row_kernels import round_up

DRAWS = 4000


def some_rows(draw: np.random.Generator, n: int, values: int) -> np.ndarray:
    sizes = 10.0 ** draw.uniform(-9, 4, (n, values))
    return (sizes * draw.choice([-1, 1], (n, values))).astype(np.float32)


def some_chunk(draw: np.random.Generator, codec: str, n: int, values: int) -> GradientChunk:
    keys = draw.permutation(np.unique(draw.integers(0, 1 << 64, 2 * n + 8, np.uint64)))[:n]
    if codec == "ternary":
        symbols = draw.integers(-1, 2, (n, values)).astype(np.int8)
        groups = (values,) if values == 1 or draw.random() < 0.5 else (1, values - 1)
        return GradientChunk(codec, keys, symbols, draw.integers(0, 256, (n, len(groups))).astype(np.uint8), groups)
    if codec == "fixed":
        size = draw.integers(0, 32, (n, 1))
        numbers = draw.integers(-(1 << 31), 1 << 31, (n, values)) >> size
        return GradientChunk(codec, keys, numbers.astype(np.int32))
    return GradientChunk(codec, keys, draw.normal(size=(n, values)).astype(CHUNK_DTYPES[codec]))


def by_key(keys: np.ndarray, gradients: np.ndarray) -> dict[int, bytes]:
    return {key: row.tobytes() for key, row in zip(keys.tolist(), gradients, strict=True)}


# --- rows
def test_float32_is_exact(seed: int) -> None:
    rows = np.random.default_rng(seed).integers(0, 1 << 32, (50, 3), np.uint32).view(np.float32)
    assert decode_rows(encode_rows(rows, "float32", 0), 50, 3, "float32").tobytes() == rows.tobytes()


def test_float16_is_a_neighbour_and_right_on_average(seed: int) -> None:
    draw = np.random.default_rng(seed)
    row = some_rows(draw, 1, 200)
    row[0, :7] = 0, -0.0, 1, 2.0**-24, 65504, 2.0**-14, -(2.0**-15)
    row[0, 7:9] = 3 * 2.0**-26, 2.0**-14 - 2.0**-26  # between subnormals, and below the smallest normal number
    row[0, 9] = 2 - 2.0**-12  # a carry changes the exponent
    found = decode_rows(encode_rows(np.repeat(row, DRAWS, 0), "float16", seed), DRAWS, 200, "float16")
    for j, value in enumerate(row[0]):
        near = np.float16(value)
        low = near if near <= value else np.nextafter(near, np.float16(-np.inf))
        high = low if low == value else np.nextafter(low, np.float16(np.inf))
        seen = found[:, j]
        assert set(seen.tolist()) <= {float(low), float(high)}, value
        exact, bottom, top = (Fraction(float(each)) for each in (value, low, high))
        share = 0.0 if high == low else float((exact - bottom) / (top - bottom))
        error = 6 * np.sqrt(share * (1 - share) / DRAWS) + 3 / DRAWS
        assert abs(np.mean(seen == high) - share) <= error or high == low, value
    assert np.signbit(found[0, 1])


def test_float16_saturates() -> None:
    rows = np.array([[65504, 65505, 1e9, -np.inf, np.nan]], np.float32)
    found = decode_rows(encode_rows(rows, "float16", 3), 1, 5, "float16")
    assert found[0, :4].tolist() == [65504, 65504, 65504, -65504] and np.isnan(found[0, 4])


def test_int8_is_right_on_average(seed: int) -> None:
    draw = np.random.default_rng(seed)
    row = draw.normal(size=(1, 30)).astype(np.float32) * np.float32(10.0 ** draw.uniform(-8, 8))
    found = decode_rows(encode_rows(np.repeat(row, DRAWS, 0), "int8", seed), DRAWS, 30, "int8")
    scale = np.abs(row).max() / 127
    assert np.abs(found - row).max() < 1.0001 * scale
    assert np.abs(found.mean(0, dtype=np.float64) - row[0]).max() < 6 * 0.5 * scale / np.sqrt(DRAWS)
    largest = np.argmax(np.abs(row))
    assert np.mean(np.isclose(found[:, largest], row[0, largest], rtol=1e-6)) > 0.99


def test_int8_takes_zeros_and_refuses_what_is_not_finite() -> None:
    rows = np.array([[0, 0], [1e-45, 0], [3, -3]], np.float32)
    found = decode_rows(encode_rows(rows, "int8", 1), 3, 2, "int8")
    assert found[0].tolist() == [0, 0] and np.allclose(found[2], [3, -3])
    with pytest.raises(DataError, match="row 1 is not finite: the training has diverged"):
        encode_rows(np.array([[0], [np.inf]], np.float32), "int8", 1)


@pytest.mark.parametrize("codec", ["float16", "int8"])
def test_the_seed_gives_the_draws(codec: str, seed: int) -> None:
    rows = some_rows(np.random.default_rng(seed), 40, 9)
    same, again, other = (encode_rows(rows, codec, start) for start in (seed, seed, seed + 1))
    assert np.array_equal(same, again) and not np.array_equal(same, other)


@pytest.mark.parametrize("codec", ["float32", "float16", "int8"])
def test_rows_of_another_length_are_found(codec: str) -> None:
    data = encode_rows(np.ones((4, 3), np.float32), codec, 0)
    for bad in (data[:-1], np.append(data, np.uint8(0)), data[:0]):
        with pytest.raises(DataError, match="damaged"):
            decode_rows(bad, 4, 3, codec)
    assert decode_rows(data[:0], 0, 3, codec).shape == (0, 3)
    with pytest.raises(DataError, match="got 'float8'"):
        decode_rows(data, 4, 3, "float8")


# --- scales
def test_scales_are_rounded_up_to_4_bits(seed: int) -> None:
    numbers = [*range(70), *(1 << np.arange(31)), (1 << 31) - 1]
    numbers += np.random.default_rng(seed).integers(0, 1 << 31, 300).tolist()
    ladder = sorted({top << shift for top in range(16) for shift in range(31)})
    for number in numbers:
        code = round_up(int(number))
        assert scales_of(np.array([code], np.uint8))[0] == next(each for each in ladder if each >= number)


# --- chunks
@pytest.mark.parametrize("pack_keys", [False, True])
@pytest.mark.parametrize("values", [1, 9])
def test_parts_come_back(pack_keys: bool, values: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    for counts in ((0, 0, 0, 0), (1, 0, 3, 1), (40, 33, 150, 27)):
        chunks = [some_chunk(draw, codec, n, values) for codec, n in zip(CHUNK_DTYPES, counts, strict=True)]
        keys, gradients = decode_chunks(encode_chunks(chunks, pack_keys=pack_keys), values)
        assert gradients.shape == (sum(counts), values) and gradients.dtype == np.float32
        sent = [by_key(chunk.keys, chunk.gradients()) for chunk in chunks]
        assert by_key(keys, gradients) == {key: row for each in sent for key, row in each.items()}
    assert decode_chunks(encode_chunks([], pack_keys=pack_keys), values)[1].shape == (0, values)


def test_gradients_are_what_the_rows_mean() -> None:
    keys = np.array([5, 3], np.uint64)
    symbols, scales = np.array([[-1, 1], [0, 1]], np.int8), np.array([[13], [16]], np.uint8)
    ternary = GradientChunk("ternary", keys, symbols, scales, (2,))
    assert ternary.gradients().tolist() == [[-13 * UNIT, 13 * UNIT], [0, 16 * UNIT]]
    grouped = GradientChunk("ternary", keys, symbols, np.array([[13, 5], [16, 0]], np.uint8), (1, 1))
    assert grouped.gradients().tolist() == [[-13 * UNIT, 5 * UNIT], [0, 0]]
    fixed = GradientChunk("fixed", keys, np.array([[-3, 0], [1 << 24, 7]], np.int32))
    assert fixed.gradients().tolist() == [[-3 * UNIT, 0], [16, 7 * UNIT]]
    assert fixed.take(np.array([1])).keys.tolist() == [3]
    assert ternary.take(np.array([1])).scales.tolist() == [[16]]


def test_sizes(seed: int) -> None:
    draw = np.random.default_rng(seed)
    bytes_of = {}
    for codec in CHUNK_DTYPES:
        chunk = some_chunk(draw, codec, 1000, 9)
        none, all_rows = (len(encode_chunks([chunk.take(np.arange(n))], pack_keys=False)) for n in (0, 1000))
        bytes_of[codec] = (all_rows - none) / 1000 - 8 - max(len(chunk.groups) - 1, 0)
    assert bytes_of["float32"] == 36 and bytes_of["float16"] == 18
    assert bytes_of["ternary"] == pytest.approx(1 + 9 / 5)
    assert bytes_of["fixed"] <= 4 * 9 + 2
    small = GradientChunk("fixed", np.arange(1000, dtype=np.uint64), np.full((1000, 9), -3, np.int32))
    assert len(encode_chunks([small], pack_keys=True)) < 1000 * (9 * 4 + 10 + 2) / 8


def test_parts_check_their_arrays() -> None:
    keys = np.arange(2, dtype=np.uint64)
    for codec, rows in (
        ("float8", keys),
        ("float16", np.zeros((2, 3), np.float32)),
        ("fixed", np.zeros((1, 3), np.int32)),
    ):
        with pytest.raises(DataError, match=codec):
            GradientChunk(codec, keys, rows)
    for groups in ((), (2,), (1, 1)):
        with pytest.raises(DataError, match="needs groups of 3 values in all"):
            GradientChunk("ternary", keys, np.zeros((2, 3), np.int8), np.zeros((2, len(groups)), np.uint8), groups)


@pytest.mark.parametrize("codec", CHUNK_DTYPES)
@pytest.mark.parametrize("pack_keys", [False, True])
def test_damaged_parts_are_found(codec: str, pack_keys: bool, seed: int) -> None:
    draw = np.random.default_rng(seed)
    data = encode_chunks([some_chunk(draw, codec, 20, 4)], pack_keys=pack_keys)
    for cut in range(0, len(data)):
        with pytest.raises(DataError, match="damaged"):
            decode_chunks(data[:cut], 4)
    with pytest.raises(DataError, match="behind its last chunk"):
        decode_chunks(np.append(data, np.uint8(0)), 4)
    with pytest.raises(DataError, match="damaged"):
        decode_chunks(data, 5)
    for _ in range(300):  # any bytes: an answer or an error, and nothing else
        bad = data.copy()
        bad[draw.integers(0, len(bad), 3)] = draw.integers(0, 256, 3)
        try:
            keys, gradients = decode_chunks(bad, 4)
            assert gradients.shape == (len(keys), 4)
        except DataError as error:
            assert "damaged" in str(error)
