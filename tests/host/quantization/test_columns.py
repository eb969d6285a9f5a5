"""Centers and reaches of columns: the most frequent value on a level, outliers clipped, all others as they were."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.contract.precision import Precision
from bitlane.quantization import row_table
from bitlane.quantization.columns import ColumnUnits, suited_columns
from bitlane.quantization.positions import position_map
from bitlane.quantization.quantize import base_codes, draw_codes
from bitlane.quantization.ranges import SAMPLE_ROWS, Ranges, TableRanges, feature_ranges
from bitlane.quantization.row_table import RowTable
from bitlane.quantization.scaling import Scaling, scaling_from

SAMPLINGS = ("double", "nearest", "naive")


def chosen(X, precision: Precision, **options: bool) -> ColumnUnits:
    given = {"fit_intercept": True, "clip": True, "on_levels": True} | options
    return suited_columns(feature_ranges(X), precision, given.pop("fit_intercept"), **given)


def random_precision(rng, most: int) -> Precision:
    return Precision(2 * int(rng.integers(1, most // 2 + 1)), str(rng.choice(SAMPLINGS)))


def stored(X, scaling: Scaling, precision: Precision, rng):
    """Stored values in user units, read as the accelerator reads them: [2 draws, rows, n]."""
    positions = position_map(scaling, precision).positions(X)
    words = rng.integers(1 << 32, size=positions.shape, dtype=np.uint32)
    codes, width = base_codes(positions, precision, words).astype(np.float64), 2.0 ** (1 - precision.base_bits)
    if precision.draws:
        pairs = draw_codes(positions, precision, words)
        read = np.stack([codes + (pairs >> 1), codes + (pairs & 1)]) * width - 1
    else:
        read = np.stack([codes, codes]) * width - 1 + width / 2
    return scaling.center[scaling.active] + scaling.scale[scaling.active] * read[..., : len(scaling.active)]


def continuous(rng, rows: int):
    """Columns of many kinds whose values are all different, and that all belong to the data."""
    return np.column_stack(
        [
            rng.normal(size=rows),
            rng.uniform(-3, 8, rows),
            rng.normal(1.6e9, 1e6, rows),  # seconds
            np.exp(rng.normal(size=rows) * rng.uniform(0.2, 1)),
            rng.exponential(size=rows),
            rng.laplace(size=rows),
            -rng.gamma(0.7, size=rows),
        ]
    )


@pytest.mark.parametrize("_", range(10))
def test_two_values_are_stored_exactly(seed, _):
    rng = np.random.default_rng([seed, _])
    precision, rows = random_precision(rng, 8), int(rng.integers(20, 3000))
    low = rng.normal(0, 100, 8)
    high = low + 10.0 ** rng.integers(-2, 4, 8) * rng.uniform(1, 9, 8)
    X = np.where(rng.random((rows, 8)) < rng.uniform(0.002, 0.998, 8), high, low)
    X[:2] = low, high
    columns = chosen(X, precision)
    scaling = scaling_from(TableRanges.of(X, np.zeros((rows, 1))), True, precision.limit, units=columns)
    off = np.abs(stored(X, scaling, precision, rng) - X) > 2e-5 * (high - low).max()
    # A position is rounded. So one that lies on a level is drawn from its neighbour once in some thousand values.
    assert off.mean() < 0.01 if precision.sampling == "naive" else not off.any()


@pytest.mark.parametrize("_", range(10))
def test_the_most_frequent_value_is_stored_exactly(seed, _):
    """Counts, pixels, a value that fills gaps. With draws the center moves only where that saves half of the noise."""
    rng = np.random.default_rng([seed, _])
    precision, rows = random_precision(rng, 8), int(rng.integers(300, 3000))
    frequent = np.array([0.0, 0.0, 255.0, 7.3, -1.0])
    rest = np.column_stack(
        [
            rng.poisson(3, rows),
            rng.exponential(size=rows),
            rng.integers(0, 256, rows),
            rng.normal(5, 4, rows),
            rng.uniform(-1, 1, rows),
        ]
    )
    X = np.where(rng.random((rows, 5)) < rng.uniform(0.8, 0.99, 5), frequent, rest)
    X[0] = 1.0, 1.0, 254.0, 6.3, -0.5  # no column is constant
    if precision.draws and precision.base_bits == 0:
        return  # two levels, at the ends: only there can a value be exact
    columns = chosen(X, precision)
    scaling = scaling_from(TableRanges.of(X, np.zeros((rows, 1))), True, precision.limit, units=columns)
    mean, read = X.mean(axis=0), stored(X, scaling, precision, rng)
    plain = np.maximum(X.max(axis=0) - mean, mean - X.min(axis=0)) / precision.limit
    assert (scaling.scale <= 2.0001 * plain).all()
    assert np.abs(columns.center - mean).max() <= np.max(scaling.scale * 2.0 ** (1 - precision.base_bits))
    errors = np.abs(np.where(frequent == X, read - X, 0.0)).max(axis=(0, 1)) / scaling.scale
    if not precision.draws:
        assert errors.max() < 1e-4
        return
    width = 2.0 ** (1 - precision.base_bits)
    for column in np.flatnonzero(errors > 1e-4):  # the center is the mean then, and moving it would have saved little
        assert columns.center[column] == pytest.approx(mean[column])
        fraction = ((X[:, column] - mean[column]) / plain[column] + 1) / width % 1
        before = width**2 * np.mean(fraction * (1 - fraction)) * plain[column] ** 2
        assert before < 3 * (width * scaling.scale[column]) ** 2 * np.mean(X[:, column] != frequent[column])


@pytest.mark.parametrize("_", range(10))
def test_the_nearest_level_to_the_mean_is_taken(seed, _):
    rng = np.random.default_rng([seed, _])
    bits = int(rng.choice([4, 6]))
    share, rows = rng.uniform(0.02, 0.98), int(rng.integers(50, 3000))
    x = (np.arange(rows) < max(1, round(share * rows))) * 1.0
    mean, base = x.mean(), bits - 2
    frequent, towards = (1.0, -1.0) if mean > 0.5 else (0.0, 1.0)
    levels = np.linspace(-1, 1, 2**base + 1)
    centers = [frequent - level / (1 - towards * level) for level in levels if towards * level < 1]
    found = chosen(x[:, None], Precision(bits))
    assert abs(found.center[0] - mean) == pytest.approx(np.abs(np.array(centers) - mean).min(), abs=1e-9)
    assert found.on_means == (found.center[0] == mean)


@pytest.mark.parametrize("_", range(10))
def test_other_columns_stay_on_their_means(seed, _):
    rng = np.random.default_rng([seed, _])
    X = continuous(rng, int(rng.integers(10, 30_000)))
    found = chosen(X, random_precision(rng, 16))
    assert found.on_means and found.center == pytest.approx(X.mean(axis=0), rel=1e-12, abs=1e-12)
    assert found.reach.tolist() == np.maximum(X.max(axis=0) - found.center, found.center - X.min(axis=0)).tolist()


@pytest.mark.parametrize("_", range(10))
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_few_outliers_are_clipped(seed, _, fit_intercept):
    """However far they are. Legitimate columns in the same rows stay."""
    rng = np.random.default_rng([seed, _])
    rows = int(rng.integers(500, 30_000))
    X = np.column_stack([rng.normal(size=(rows, 3)), rng.exponential(size=rows), rng.poisson(0.3, rows)])
    rare = (rng.random((rows, 2)) < 0.003) * 1.0
    some = rng.choice(rows, int(rng.integers(1, 2 + rows // 1000)), replace=False)
    clean = np.delete(X, some, axis=0)
    X[some] = rng.choice([-1, 1], (len(some), 5)) * 10.0 ** rng.uniform(3.5, 12) * rng.uniform(0.5, 2, (len(some), 5))
    rare[0] = 1
    found = chosen(np.hstack([X, rare]), Precision(4), fit_intercept=fit_intercept)
    center = clean.mean(axis=0) if fit_intercept else np.zeros(5)
    assert (found.reach[:5] <= 2 * np.abs(clean - center).max(axis=0)).all()
    assert (np.abs(found.center[:5] - center) <= 0.8 * clean.std(axis=0)).all()
    assert (found.reach[5:] >= 0.5).all()  # of 0 and 1
    kept = chosen(np.hstack([X, rare]), Precision(4), clip=False, fit_intercept=fit_intercept)
    assert (kept.reach[:5] >= 0.99 * np.abs(X - kept.center[:5]).max(axis=0)).all()


@pytest.mark.parametrize("_", range(10))
def test_what_belongs_to_a_column_stays(seed, _):
    """Heavy tails, rare ones, counts: their largest values are what they are about."""
    rng = np.random.default_rng([seed, _])
    rows = int(rng.integers(300, 30_000))
    X = np.column_stack(
        [
            np.exp(rng.normal(size=rows) * 1.2),
            rng.standard_t(4, rows),
            rng.random(rows) < 0.001,
            rng.poisson(0.01, rows) * rng.integers(1, 50, rows),
            (rng.random(rows) < 0.02) * np.exp(rng.normal(size=rows)),
            rng.poisson(0.3, rows),
        ]
    )
    found = chosen(X, Precision(4), on_levels=False)
    assert found.on_means


def test_fewer_than_all_columns_change_the_others_not(seed):
    """What is chosen for a column depends on this column alone."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([continuous(rng, 2000), rng.random((2000, 3)) < [0.02, 0.4, 0.9]])
    X[17, 0], X[5, 8] = 1e6, 400
    together, precision = chosen(X, Precision(4)), Precision(4)
    for column in range(X.shape[1]):
        alone = chosen(np.repeat(X[:, column : column + 1], 2, axis=1), precision)
        assert alone.center[0] == pytest.approx(together.center[column], rel=1e-12)
        assert alone.reach[0] == pytest.approx(together.reach[column], rel=1e-9)


# --- the sample
def same(one: Ranges, other: Ranges) -> None:
    assert one.numbers.tolist() == other.numbers.tolist() and one.rows == other.rows
    assert np.asarray(one.sample, np.float64).tolist() == np.asarray(other.sample, np.float64).tolist()
    assert one.low.tolist() == other.low.tolist() and one.high.tolist() == other.high.tolist()
    assert one.mean == pytest.approx(other.mean, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("piece", [1, 300, 1 << 20])
def test_all_containers_and_pieces_give_the_same_ranges(seed, monkeypatch, tmp_path, piece):
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(seed)
    X = np.column_stack([continuous(rng, 3000), rng.random((3000, 3)) < [0.02, 0.4, 0.9]])
    X[17, 0] = 1e6
    expected = feature_ranges(X)
    monkeypatch.setattr(row_table, "PIECE", piece)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for table in (X, np.asfortranarray(X), *(RowTable(each, X.dtype) for each in (mapped, sparse.csr_matrix(X)))):
        same(feature_ranges(table), expected)
    kept = suited_columns(expected, Precision(4), True, clip=True, on_levels=True)
    assert kept.reach[0] < 10


def test_pieces_of_a_stream_give_the_sample_of_all_rows(seed):
    rng = np.random.default_rng(seed)
    rows, n = int(rng.integers(10, 20_000)), int(rng.integers(1, 300))
    X, y = rng.normal(size=(rows, n)), np.zeros((rows, 1))
    cuts = np.unique(rng.integers(1, rows, 6))
    seen: TableRanges | None = None
    for part in np.split(X, cuts):
        first = 0 if seen is None else seen.features.rows
        ranges = TableRanges.of(part, y[: len(part)], first)
        seen = ranges if seen is None else seen.merged(ranges)
    assert seen is not None
    same(seen.features, feature_ranges(X))
    assert seen.features.sample.tolist() == X[seen.features.numbers].tolist()


def test_the_sample_is_spread_over_the_rows(seed):
    rng = np.random.default_rng(seed)
    least, most = SAMPLE_ROWS
    for _ in range(20):
        rows, n = int(10.0 ** rng.uniform(0, 5.5)), int(10.0 ** rng.uniform(0, 2))
        numbers = feature_ranges(np.broadcast_to(0.0, (rows, n))).numbers
        assert min(rows, 0.4 * least) <= len(numbers) <= 1.1 * most and (np.diff(numbers) > 0).all()
        if rows <= least:
            assert len(numbers) == rows
        gaps = np.diff(np.concatenate([[-1], numbers, [rows]]))
        assert gaps.max() <= 4 * rows / len(numbers) + 1
