"""The source region of an encoder in hardware, read back word by word."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.encoder_cases import DTYPES, random_table

from bitlane.contract.encoding import FLOAT_BIAS, left_shift, row_beats, source_beats, table_beats
from bitlane.contract.geometry import Geometry
from bitlane.contract.precision import Precision
from bitlane.errors import DataError
from bitlane.quantization.positions import PositionMap, position_map
from bitlane.quantization.scaling import fit_scaling
from bitlane.quantization.source import pack_scales, pack_source, value_type

BASE_BITS = 14


WIDE = [(1, 1, 1), (4, 1, 2), (1, 4, 1), (2, 8, 4), (8, 8, 16)]  # rows of a beat, shards, ports


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", WIDE, ids=str)
def test_each_word_of_a_beat_is_a_region_of_its_own(dtype, shape, seed) -> None:
    """The words with the same place in every beat are the source region of some rows and features for a narrow build.

    They are every so many rows of each batch, and 32 features of each chunk; missing rows and features are 0.
    """
    rng, (per_beat, shards, ports) = np.random.default_rng(seed), shape
    rows, n, outputs = int(rng.integers(1, 150)), int(rng.integers(1, 600)), int(rng.integers(1, 4))
    X = random_table(rng, dtype, rows, n)
    X[:, -1], labels = 0, rng.integers(-9, 9, (rows, outputs)).astype(np.int16)
    scales = rng.integers(1 << 23, 1 << 24, n) * 2.0 ** rng.integers(-9, 9, n)
    mapped = PositionMap(np.arange(n), scales, rng.integers(-9, 9, n).astype(np.float64), 4)
    wide = Geometry.of(Precision(4), n, rows, int(rng.integers(1, rows + 1)), per_beat, outputs, shards, ports)
    kind = value_type(dtype)
    found = pack_source(X, labels, mapped, wide, BASE_BITS).reshape(-1, shards, per_beat)
    assert len(found) == source_beats(kind, n, wide.groups, outputs, shards)
    slots = [
        row for batch in range(0, rows, wide.batch) for row in padded(batch, min(batch + wide.batch, rows), per_beat)
    ]
    missing = n // (32 * shards) * 32 + min(n % (32 * shards), 32)  # features of the first shard
    together = 4 * shards
    for shard in range(shards):
        columns = [at + i for at in range(32 * shard, n + 32 * shards * 2, 32 * shards) for i in range(32)][:missing]
        of_shard = PositionMap(np.arange(missing), *(taken(v, columns) for v in (scales, mapped.offsets)), 4)
        for row in range(per_beat):
            some = slots[row::per_beat]
            narrow = Geometry.of(Precision(4), missing, len(some), len(some), outputs=outputs)
            values = taken(taken(X, some).T, columns).T
            expected = pack_source(values, taken(labels, some), of_shard, narrow, BASE_BITS)
            at = table_beats(missing)
            assert found[:at, shard, row].tolist() == expected[:at].tolist()
            ours, theirs = at, at  # beats of the wide and of the narrow region
            for first in range(0, len(some), 4):
                if first % together == 0:
                    fields, ours = found[ours : ours + outputs, shard, row], ours + outputs
                theirs += outputs
                if first % together == 4 * shard:
                    assert fields.tolist() == expected[theirs - outputs : theirs].tolist()
                count = row_beats(kind, missing) * len(some[first : first + 4])
                assert found[ours : ours + count, shard, row].tolist() == expected[theirs : theirs + count].tolist()
                ours, theirs = ours + count, theirs + count
            assert ours == len(found)


def padded(start: int, stop: int, per_beat: int) -> list[int]:
    """Rows from `start` on, with -1 up to complete groups."""
    return [*range(start, stop), *[-1] * (-(stop - start) % per_beat)]


def taken(values, some):
    """Values at some places, and 0 for places that are not there."""
    there = np.array([0 <= place < len(values) for place in some])
    found = np.zeros((len(some), *values.shape[1:]), values.dtype)
    found[there] = values[np.array(some)[there]]
    return found


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("stored_intercept", [0.0, 1.0])
def test_rows_and_labels(dtype, stored_intercept, seed) -> None:
    """Labels precede every fourth row; a row is its stored columns, padded with zeros to complete beats."""
    rng = np.random.default_rng(seed)
    rows, outputs = int(rng.integers(1, 10)), int(rng.integers(1, 4))
    X, y = random_table(rng, dtype, rows + 1, int(rng.integers(1, 40))), rng.normal(size=(rows + 1, outputs))
    X[:2, -1] = 0, 1  # at least one column is not constant
    scaling = fit_scaling(X, y, intercept_value=stored_intercept)
    precision = Precision(4)
    geometry = Geometry.of(precision, scaling.stored_features, rows, 4, outputs=outputs)
    labels = scaling.labels(y[:rows])
    words = pack_source(X[:rows], labels, position_map(scaling, precision), geometry, BASE_BITS)
    kind, n = value_type(dtype), geometry.features
    assert len(words) == source_beats(kind, n, rows, outputs)
    at, beats = table_beats(n), row_beats(kind, n)
    for row in range(rows):
        if row % 4 == 0:
            for output in range(outputs):
                expected = np.zeros(4, np.int16)
                expected[: rows - row] = labels[row : row + 4, output]
                assert words[at : at + 1].view(np.int16).tolist() == expected.tolist()
                at += 1
        values = words[at : at + beats].view(dtype)
        at += beats
        stored = X[row, scaling.active].tolist() + [0] * bool(stored_intercept)
        assert values.tolist() == stored + [0] * (len(values) - n)
    assert at == len(words)


def test_scales(seed) -> None:
    """An entry holds the multiplier of a feature exactly, and its offset."""
    rng = np.random.default_rng(seed)
    features = int(rng.integers(1, 30))
    multipliers = rng.integers(1 << 23, 1 << 24, features) * 2.0 ** rng.integers(-60, 60, features)
    offsets = rng.integers(-(1 << 48), 1 << 48, features).astype(np.float64)
    mapped = PositionMap(np.arange(features), multipliers, offsets, BASE_BITS)
    table = pack_scales(mapped, BASE_BITS).reshape(-1, 2)
    for feature, (first, second) in enumerate(table[:features].tolist()):
        multiplier, shift = first & 0xFFFFFF, (first >> 24 & 0x3FF ^ 0x200) - 0x200
        assert multiplier >> 23 == 1 and first >> 34 == 0
        assert multiplier * 2.0 ** (FLOAT_BIAS + left_shift(BASE_BITS) - shift) == multipliers[feature]
        assert np.uint64(second).view(np.int64) == offsets[feature]
    assert not table[features:].any()


def test_refusals() -> None:
    X, y = np.arange(6.0).reshape(3, 2), np.zeros((3, 1))
    scaling = fit_scaling(X, y + X[:, :1])
    mapped = position_map(scaling, Precision(4))
    with pytest.raises(DataError, match="reads uint8, int16 and float32, not float64"):
        pack_source(X, y.astype(np.int16), mapped, Geometry(2, 3, 1, True, 1), BASE_BITS)
    with pytest.raises(DataError, match="stored feature 1 is beyond the scales of the hardware encoder"):
        pack_scales(mapped._replace(multipliers=np.array([1.0, 2.0**700])), BASE_BITS)
