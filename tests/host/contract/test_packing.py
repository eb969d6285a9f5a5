"""Packed words against a packer with Python integers, and the speed of packing."""

import math
import time

import numpy as np
import pytest

from bitlane.contract.draws import draw_words, row_words
from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import (
    master_weights,
    pack_base,
    pack_draws,
    pack_master,
    unpack_base,
    unpack_draws,
    unpack_master,
    weight_values,
)
from bitlane.contract.precision import Precision
from bitlane.errors import DataError
from bitlane.quantization.positions import value_positions
from bitlane.quantization.quantize import base_codes, draw_codes

SHAPES = [(1, 1), (3, 31), (4, 32), (5, 33), (9, 100)]


def word(digits):
    return sum(int(digit) << 2 * j for j, digit in enumerate(digits))


def packed_row(codes, digits, half=False):
    """Return the words of a row: for each chunk one word per digit of its 32 codes, the most significant digit first.

    With half digits, a word with the highest bits of the next 64 codes precedes every second chunk.
    """
    words = []
    for first in range(0, len(codes), 32):
        chunk = codes[first : first + 32]
        if half and first % 64 == 0:
            words.append(sum((code >> 2 * digits) << j for j, code in enumerate(codes[first : first + 64])))
        words += [word([code >> 2 * k & 3 for code in chunk]) for k in reversed(range(digits))]
    return words


def grouped(rows, batch, rows_per_beat):
    """Return the rows of each group."""
    return [
        list(range(first, min(first + rows_per_beat, start + batch, rows)))
        for start in range(0, rows, batch)
        for first in range(start, min(start + batch, rows), rows_per_beat)
    ]


def side_by_side(group, rows, rows_per_beat):
    """Return the words of a group: each beat has one word per row, and 0 for missing rows."""
    words = [rows[row] for row in group] + [[0] * len(rows[0])] * (rows_per_beat - len(group))
    return [column[i] for i in range(len(rows[0])) for column in words]


def label_beat(groups, labels, rows_per_beat):
    """Return the label beat of up to four groups: one word per row of a group, 16 bits per group."""
    return [
        sum((labels[group[column]] & 0xFFFF) << 16 * i for i, group in enumerate(groups) if column < len(group))
        for column in range(rows_per_beat)
    ]


def packed_base(codes, labels, digits, groups, rows_per_beat, half):
    rows = [packed_row(code, digits, half) for code in codes]
    words = []
    for number, group in enumerate(groups):
        if number % 4 == 0:
            for of_output in zip(*labels, strict=True):
                words += label_beat(groups[number : number + 4], of_output, rows_per_beat)
        words += side_by_side(group, rows, rows_per_beat)
    return words


def table_geometry(features, rows, base_bits, batch, rows_per_beat=1, outputs=1):
    digits, half = divmod(base_bits, 2)
    return Geometry(features, rows, digits, True, batch, rows_per_beat, outputs, half_digit=bool(half), codebook=True)


def random_data(seed, geometry):
    rng = np.random.default_rng(seed)
    shape = (geometry.rows, geometry.features)
    codes = rng.integers(0, 1 << geometry.base_bits, shape, dtype=np.uint64).astype(np.uint32)
    labels = rng.integers(-32768, 32768, (geometry.rows, geometry.outputs)).astype(np.int16)
    draws = rng.integers(0, 4, shape).astype(np.uint8)
    return codes, labels, draws


def check_words(seed, geometry):
    codes, labels, draws = random_data(seed, geometry)
    rows_per_beat = geometry.rows_per_beat
    groups = grouped(geometry.rows, geometry.batch, rows_per_beat)
    base = pack_base(codes, labels, geometry)
    drawn = pack_draws(draws, geometry)
    assert base.dtype == drawn.dtype == np.uint64
    digits, half = geometry.base_digits, geometry.half_digit
    assert base.tolist() == packed_base(codes.tolist(), labels.tolist(), digits, groups, rows_per_beat, half)
    rows = [packed_row(row, 1) for row in draws.tolist()]
    assert drawn.tolist() == [word for group in groups for word in side_by_side(group, rows, rows_per_beat)]
    assert (len(base), len(drawn)) == (geometry.base_words, geometry.draw_words)
    assert geometry.beats * rows_per_beat == len(base) + len(drawn)

    again, labels_again = unpack_base(base, geometry)
    assert np.array_equal(again, codes) and np.array_equal(labels_again, labels)
    assert np.array_equal(unpack_draws(drawn, geometry), draws)


@pytest.mark.parametrize(("rows", "n"), SHAPES)
@pytest.mark.parametrize("digits", [0, 1, 3, 4, 5, 16])
def test_words_follow_the_layout(seed, rows, n, digits):
    check_words(seed, Geometry(n, rows, digits, True, 3))


@pytest.mark.parametrize(("rows", "n"), [*SHAPES, (3, 64), (6, 65)])
@pytest.mark.parametrize("base_bits", [1, 2, 3])
def test_words_of_codes_with_codebooks(seed, rows, n, base_bits):
    """Half digits have words of their own; with two base bits the words equal those of uniform levels."""
    check_words(seed, table_geometry(n, rows, base_bits, 3))


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("rows_per_beat", [1, 2, 4, 8])
@pytest.mark.parametrize("outputs", [1, 2, 15])
def test_words_of_rows_in_parallel(seed, rows_per_beat, outputs, half):
    rng = np.random.default_rng(seed)
    for _ in range(30):
        rows, n, digits = int(rng.integers(1, 70)), int(rng.integers(1, 140)), int(rng.integers(2 if half else 4))
        batch = int(rng.integers(1, rows + 5))
        check_words(seed, Geometry(n, rows, digits, True, batch, rows_per_beat, outputs, half, codebook=half))


def test_groups_of_a_geometry(seed):
    rng = np.random.default_rng(seed)
    for _ in range(200):
        rows, batch, rows_per_beat = int(rng.integers(1, 80)), int(rng.integers(1, 90)), int(rng.choice([1, 2, 4, 8]))
        geometry = Geometry(3, rows, 1, False, batch, rows_per_beat)
        groups = grouped(rows, batch, rows_per_beat)
        in_batch = [group for group in groups if group[0] < batch]
        assert geometry.groups == len(groups)
        assert geometry.batch_groups == len(in_batch)
        assert geometry.tails == (len(in_batch[-1]), len(groups[-1]))
        assert geometry.batches == -(-rows // batch)
        assert [geometry.first_row(i) for i in range(len(groups) + 1)] == [*(group[0] for group in groups), rows]
        assert [geometry.group_start(row) for row in range(rows)] == [group[0] for group in groups for _ in group]
        assert geometry.group_start(rows) == rows
        first = int(rng.integers(len(groups)))
        some = range(first, int(rng.integers(first, len(groups) + 1)))
        taken = [row for i in some for row in groups[i]]
        assert list(range(rows))[geometry.rows_of(some)] == taken
        slots = [
            i * rows_per_beat + place
            for i, group in enumerate(groups[some.start : some.stop])
            for place in range(len(group))
        ]
        assert geometry.slots(some).tolist() == slots


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("rows_per_beat", [1, 2, 8])
@pytest.mark.parametrize("batch", [3, 16, 100])
def test_parts_of_a_region_equal_the_whole(seed, monkeypatch, rows_per_beat, batch, half):
    """Blocks join at label words; a part equals the same words of the whole region."""
    geometry = Geometry(40, 290, 1 if half else 3, True, batch, rows_per_beat, 2, half, codebook=half)
    codes, labels, draws = random_data(seed, geometry)
    whole, drawn = pack_base(codes, labels, geometry), pack_draws(draws, geometry)
    monkeypatch.setattr("bitlane.contract.packing.BLOCK_ROWS", 4 * rows_per_beat)
    assert np.array_equal(pack_base(codes, labels, geometry), whole)
    assert np.array_equal(pack_draws(draws, geometry), drawn)
    for groups in (range(0, 8), range(12, geometry.groups), range(4, 4)):
        rows, span = geometry.rows_of(groups), geometry.base_span(groups)
        assert np.array_equal(pack_base(codes[rows], labels[rows], geometry, groups), whole[span])
        assert np.array_equal(pack_draws(draws[rows], geometry, groups), drawn[geometry.draw_span(groups)])
        again, labels_again = unpack_base(whole[span], geometry, groups)
        assert np.array_equal(again, codes[rows]) and np.array_equal(labels_again, labels[rows])
        assert np.array_equal(unpack_draws(drawn[geometry.draw_span(groups)], geometry, groups), draws[rows])


def test_bounds():
    geometry = Geometry(90, 1000, 1, True, 32)
    assert geometry.chunks == 3 and geometry.row_words == 6
    assert geometry.raw_bound == 1000 * (90 * 4 + 16) / 64
    assert geometry.layout_bound == 1000 * (96 * 4 + 16) / 64 == geometry.beats
    wide = Geometry(90, 1000, 1, True, 40, rows_per_beat=8, outputs=3)
    assert wide.raw_bound == 1000 * (90 * 4 + 48) / 512
    assert wide.layout_bound == 1000 * (96 * 4 + 48) / 512
    assert wide.beats == 125 * 6 + 32 * 3
    assert Geometry(90, 1000, 1, True, 9, rows_per_beat=8).beats == 223 * 6 + 56


def test_model_words(seed):
    master = np.random.default_rng(seed).integers(-(2**31), 2**31, (3, 37)).astype(np.int32)
    words = pack_master(master)
    geometry = Geometry(37, 1, 1, False, 1, outputs=3)
    assert len(words) == 3 * 2 * 16 == geometry.model_words == geometry.model_bytes // 8
    padded = [weight for model in master.tolist() for weight in [*model, *[0] * 27]]
    pairs = zip(padded[::2], padded[1::2], strict=True)
    assert words.tolist() == [(low & 0xFFFFFFFF) | (high & 0xFFFFFFFF) << 32 for low, high in pairs]
    assert unpack_master(words, 37).tolist() == master.tolist()
    assert pack_master(master[0]).tolist() == words[:32].tolist()


@pytest.mark.parametrize(
    ("base_bits", "row_words", "slots"), [(1, (2, 3, 5, 6), 4), (2, (2, 4, 6, 8), 8), (3, (3, 5, 8, 10), 16)]
)
def test_sizes_with_codebooks(base_bits, row_words, slots):
    for chunks, words in enumerate(row_words, start=1):
        geometry = table_geometry(32 * chunks, 10, base_bits, 4)
        assert geometry.row_words == words and geometry.level_slots == chunks * slots
        assert geometry.stored_bits == base_bits + 2
        assert geometry.raw_bound == 10 * (32 * chunks * (base_bits + 2) + 16) / 64
        assert geometry.layout_bound == 10 * (64 * words + 16) / 64


@pytest.mark.parametrize(
    ("outputs", "rows_per_beat", "words"), [(1, 1, 2), (2, 1, 4), (3, 4, 4), (1, 8, 8), (15, 2, 16)]
)
def test_record_words(outputs, rows_per_beat, words):
    assert Geometry(3, 1, 1, False, 1, rows_per_beat, outputs).record_words == words


def test_weights_are_rounded_as_the_dot_product_reads_them(seed):
    weights = np.array([0, 1, -8, 7.9999999, 2.0**-20, 100, -100, 2.0**-22])
    master = master_weights(weights)
    assert master.tolist() == [
        128,
        (1 << 28) + 128,
        128 - (1 << 31),
        2**31 - 128,
        384,
        2**31 - 128,
        128 - (1 << 31),
        128,
    ]
    assert weight_values(master)[:5] == pytest.approx(weights[:5], abs=2.0**-20)
    assert weight_values(np.array([0, 128, 255, -1], np.int32)).tolist() == [0, 0, 0, -(2.0**-20)]
    read = np.random.default_rng(seed).integers(-(1 << 23), 1 << 23, (3, 50)) * 2.0**-20
    assert weight_values(master_weights(read)).tolist() == read.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": 0}, "rows=3, features=0: both must be at least 1"),
        ({"rows": 0}, "rows=0, features=3: both must be at least 1"),
        ({"base_digits": 17}, "invalid precision: base_digits=17, draws=True"),
        ({"base_digits": 0, "draws": False}, "invalid precision: base_digits=0, draws=False"),
        ({"batch": 0}, "batch=0: it must be at least 1"),
        ({"rows_per_beat": 3}, "rows_per_beat=3"),
        ({"rows_per_beat": 16}, "rows_per_beat=16"),
        ({"outputs": 0}, "outputs=0: it must be 1 to 15"),
        ({"outputs": 16}, "outputs=16: it must be 1 to 15"),
        ({"half_digit": True}, "invalid precision: base_bits=3, .*codebook=False"),
        ({"codebook": True, "base_digits": 2}, "invalid precision: base_bits=4, .*codebook=True"),
        ({"codebook": True, "base_digits": 0}, "invalid precision: base_bits=0, .*codebook=True"),
        ({"codebook": True, "draws": False}, "invalid precision: base_bits=2, draws=False, codebook=True"),
    ],
)
def test_invalid_geometries_are_refused(change, message):
    with pytest.raises(DataError, match=message):
        Geometry(**{"features": 3, "rows": 3, "base_digits": 1, "draws": True, "batch": 2} | change)


def test_arrays_of_wrong_shape_are_refused():
    geometry = Geometry(3, 5, 1, True, 2)
    codes = np.zeros((5, 4), np.uint32)
    with pytest.raises(DataError, match=r"codes has shape \(5, 4\).*\(5, 3\)"):
        pack_base(codes, np.zeros((5, 1), np.int16), geometry)
    with pytest.raises(DataError, match="labels"):
        pack_base(codes[:, :3], np.zeros(5, np.int16), geometry)
    with pytest.raises(DataError, match="words"):
        unpack_draws(np.zeros(4, np.uint64), geometry)


def seconds(work):
    """Return the CPU time of a run in seconds, which other processes hardly affect."""
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.mark.parametrize("rows_per_beat", [1, 8])
def test_encoding_takes_less_than_a_slow_sort_and_a_half(seed, rows_per_beat):
    """Four precisions against a stable sort of the same values in the same process; encoding takes as long as one.

    numpy's other sort is ten times faster on processors with AVX-512, and says little about them.
    """
    values = np.random.default_rng(seed).uniform(-1, 1, (50_000, 90))
    labels = np.zeros((50_000, 1), np.int16)

    def encode():
        for precision in (Precision(4), Precision(8), Precision(32, "full"), Precision(5, codebook=True)):
            geometry = Geometry(
                90,
                50_000,
                precision.base_digits,
                precision.draws,
                30,
                rows_per_beat,
                half_digit=precision.half_digit,
                codebook=precision.codebook,
            )
            of_rows, step = row_words(seed % 2**32, range(len(values))), 384 // rows_per_beat
            for start in range(0, geometry.groups, step):  # what a cache holds, as in training
                groups = range(start, min(start + step, geometry.groups))
                rows = geometry.rows_of(groups)
                positions = value_positions(values[rows], precision)
                pack_base(base_codes(positions, precision), labels[rows], geometry, groups)
                if precision.draws:
                    words = draw_words(of_rows[rows], geometry.features)
                    pack_draws(draw_codes(positions, precision, words), geometry, groups)

    encoding = sorting = math.inf
    for _ in range(7):  # in turns, the least of each: what else runs on the machine may slow one of them
        sorting = min(sorting, seconds(lambda: np.sort(values, axis=None, kind="stable")))
        encoding = min(encoding, seconds(encode))
        if encoding < 1.5 * sorting:
            break
    assert encoding < 1.5 * sorting
