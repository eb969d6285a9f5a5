"""Ranges of columns, of pieces and merged, against numpy over all rows."""

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.quantization import row_table
from bitlane.quantization.ranges import TableRanges, feature_ranges
from bitlane.quantization.scaling import fit_scaling, scaling_from


@pytest.mark.parametrize("dtype", ["u1", "i8", "f4", "f8"])
@pytest.mark.parametrize("piece", [1, 50, 1 << 20])
def test_ranges_are_those_of_all_rows(seed, monkeypatch, dtype, piece):
    monkeypatch.setattr(row_table, "PIECE", piece)
    X = np.random.default_rng(seed).uniform(0, 250, (60, 7)).astype(dtype)
    X[:, 3] = 7
    found = feature_ranges(X)
    assert found.low.tolist() == X.min(axis=0).tolist() and found.high.tolist() == X.max(axis=0).tolist()
    assert found.mean == pytest.approx(X.mean(axis=0, dtype=np.float64), rel=1e-14) and found.rows == 60
    assert found.mean[3] == 7


def test_merged_ranges(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(60, 5)), rng.normal(size=(60, 2))
    X[:, 2] = 0.1  # a mean of means is not 0.1 in floating point, but lies between the bounds
    cuts = np.sort(rng.choice(np.arange(1, 60), 6, replace=False))
    parts = [TableRanges.of(*part) for part in zip(np.split(X, cuts), np.split(y, cuts), strict=True)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merged(part)
    for found, array in ((merged.features, X), (merged.labels, y)):
        assert found.low.tolist() == array.min(axis=0).tolist() and found.high.tolist() == array.max(axis=0).tolist()
        assert found.mean == pytest.approx(array.mean(axis=0), rel=1e-12, abs=1e-14) and found.rows == 60
    scaling = scaling_from(merged)
    assert scaling.active.tolist() == [0, 1, 3, 4] and np.abs(scaling.values(X)).max() <= 1
    assert scaling.scale == pytest.approx(fit_scaling(X, y).scale, rel=2.0**-22)


def test_a_mean_that_overflows_is_refused():
    ranges = TableRanges.of(np.array([[1.7e308], [1.7e308], [-1.7e308]]), np.zeros((3, 1)))
    with pytest.raises(DataError, match="overflows"):
        scaling_from(ranges)
