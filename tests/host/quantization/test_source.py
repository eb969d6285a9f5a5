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


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("stored_intercept", [0.0, 1.0])
def test_rows_and_labels(dtype, stored_intercept, seed) -> None:
    """Labels precede every fourth row; a row is its stored columns, padded with zeros to complete beats."""
    rng = np.random.default_rng(seed)
    rows, outputs = int(rng.integers(1, 10)), int(rng.integers(1, 4))
    X, y = random_table(rng, dtype, rows + 1, int(rng.integers(1, 40))), rng.normal(size=(rows + 1, outputs))
    X[:, -1] += np.arange(rows + 1).astype(dtype) % 2  # at least one column is not constant
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
    with pytest.raises(DataError, match=r"rows_per_beat=2: .* one row per beat"):
        geometry = Geometry(2, 3, 1, True, 1, rows_per_beat=2)
        pack_source(X.astype(np.float32), y.astype(np.int16), mapped, geometry, BASE_BITS)
    with pytest.raises(DataError, match="stored feature 1 is beyond the scales of the hardware encoder"):
        pack_scales(mapped._replace(multipliers=np.array([1.0, 2.0**700])), BASE_BITS)
