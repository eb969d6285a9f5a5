"""Tables of few bits in memory: what they decode to, and choices of rows and columns."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from bitlane.data.arrays import as_table
from bitlane.encoded import planes
from bitlane.encoded.column_codes import ColumnCodes
from bitlane.encoded.table import EncodedTable
from bitlane.errors import DataError
from bitlane.quantization.ranges import feature_ranges


def random_table(random: np.random.Generator, rows: int | None = None) -> np.ndarray:
    """A table of some type, with outliers, columns of integers and of two values, and constant columns."""
    rows = int(random.integers(2, 400)) if rows is None else rows
    n = int(random.choice([1, 2, 5, 31, 32, 33, 64, 65, 100, 600]))
    table = random.normal(size=(rows, n)) * 10.0 ** random.integers(-3, 4, n) + random.normal(size=n)
    kinds = random.integers(0, 6, n)
    kinds[0] = 0
    table[:, kinds == 1] = np.rint(table[:, kinds == 1])
    table[:, kinds == 2] = random.random((rows, int((kinds == 2).sum()))) < 0.1
    table[:, kinds == 3] = 7.25
    table[int(random.integers(rows)), kinds == 4] *= 1e4
    return table.astype(random.choice(["f4", "f8"]))


@pytest.mark.filterwarnings("ignore:.*beyond their scales:UserWarning")
def test_values_are_stored_within_half_an_interval(seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(10):
        X, bits = random_table(random), 2 * int(random.integers(1, 9))
        table = EncodedTable.of(X, bits=bits)
        unit = table.column_codes.scale * 2.0 ** (1 - bits)
        scale, center = table.column_codes.scale, table.column_codes.center
        values = np.clip(X.astype(np.float64), center - scale, center + scale)
        decoded = np.asarray(table)
        assert decoded.shape == X.shape == table.shape
        slack = 1e-12 * np.abs(center) + unit * 2.0**-18
        assert (np.abs(decoded - values) <= unit / 2 + slack).all()
        constant = X.min(axis=0) == X.max(axis=0)
        assert (decoded[:, constant] == X[:, constant]).all()
        assert (constant == (table.column_codes.scale == 0)).all()
        outside = (np.abs(X - center) > scale * (1 + 2.0**-20)) & ~constant
        np.testing.assert_allclose(table.clipped, outside.mean(axis=0), atol=1e-12)


def test_most_frequent_values_are_exact_and_nearly_so_with_four_bits(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, n = 500, 20
    X = random.integers(1, 200, (rows, n)).astype(np.float64)
    frequent = random.integers(0, 201, n)
    X[:, random.random(n) < 0.3] = 150.0  # columns of two values
    X = np.where(random.random((rows, n)) < 0.7, frequent, X)
    bits = 2 * int(random.integers(3, 9))
    table = EncodedTable.of(X, column_codes=ColumnCodes.of(feature_ranges(X), bits, clip=False))
    unit = table.column_codes.scale * 2.0 ** (1 - bits)
    exact = np.abs(np.asarray(table) - X) <= table.column_codes.scale * 2.0**-23
    assert (exact | (frequent != X)).all()
    four = table.coded.scale.at(table.coded.bits, 4)
    codes = np.concatenate([block.codes.copy() for block in table.coded.blocks(4)])
    error = np.abs(four.values(codes) - X[:, table.column_codes.active])
    assert (error <= unit[table.column_codes.active] * 0.51)[(frequent == X)[:, table.column_codes.active]].all()


def test_codes_of_fewer_bits_are_those_of_a_table_of_fewer_bits(seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(10):
        X = random_table(random)
        bits = 2 * int(random.integers(1, 9))
        columns = ColumnCodes.of(feature_ranges(X), bits, clip=False)
        table = EncodedTable.of(X, column_codes=columns)
        for fewer in range(1, min(8, bits) + 1):
            codes = np.concatenate([block.codes.copy() for block in table.coded.blocks(fewer)])
            if fewer % 2 == 0:
                small = EncodedTable.of(X, column_codes=ColumnCodes(fewer, columns.center, columns.scale))
                same = np.concatenate([block.codes.copy() for block in small.coded.blocks()])
                assert (codes == same).all()
                assert small.coded.bits == fewer
            scale = table.coded.scale.at(table.coded.bits, fewer)
            decoded = np.asarray(table)[:, columns.active]
            assert (
                np.abs(scale.values(codes) - decoded) <= scale.unit * (0.5 + 1e-9) + 1e-9 * np.abs(scale.center)
            ).all()


def test_choices_of_rows_and_columns_are_those_of_the_decoded_table(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    monkeypatch.setattr("bitlane.encoded.plane_blocks.BLOCK_ROWS", (64, 64))
    monkeypatch.setattr("bitlane.encoded.table_codes.BLOCK_VALUES", 3000)
    if random.random() < 0.5:
        monkeypatch.setattr(planes, "SMALL", 0)
    for _ in range(5):
        X = random_table(random, 200)
        rows, n = X.shape
        columns = ColumnCodes.of(feature_ranges(X), 8, [f"c{j}" for j in range(n)], clip=False)
        y, groups = random.normal(size=rows), random.integers(0, 5, rows)
        table = EncodedTable.of(X, y, weights=random.random(rows), groups=groups, column_codes=columns)
        decoded, chosen = np.asarray(table), table
        for _ in range(3):
            some = [
                slice(None, None, int(random.integers(1, 4))),
                slice(int(random.integers(0, 20)), -1),
                random.integers(0, len(chosen), 50),
                random.random(len(chosen)) < 0.7,
            ][int(random.integers(4))]
            chosen, decoded, y, groups = chosen[some], decoded[some], y[some], groups[some]
        assert (np.asarray(chosen) == decoded).all()
        assert (chosen.y == y).all()
        assert (chosen.groups == groups).all()
        vary = int(columns.active[0])
        numbers = np.append(random.integers(0, n, int(random.integers(0, 4))), vary)
        of_columns = chosen.take_columns([f"c{j}" for j in numbers] if random.random() < 0.5 else numbers)
        assert (np.asarray(of_columns) == decoded[:, numbers]).all()
        again = of_columns.take_columns([len(numbers) - 1, *range(len(numbers))])
        assert (np.asarray(again) == decoded[:, numbers][:, [-1, *range(len(numbers))]]).all()
        firsts = [(block.first, len(block.codes)) for block in again.coded.blocks()]
        ends = np.cumsum([0, *(count for _, count in firsts)]).tolist()
        assert [*(first for first, _ in firsts), len(again)] == ends
        np.testing.assert_allclose(chosen @ np.eye(n)[:, :2], decoded[:, :2])
        assert len({each.fingerprint for each in (table, table[:100], table.take_columns([vary, vary]))}) == 3
        assert table.fingerprint == EncodedTable.of(X, column_codes=columns, threads=1).fingerprint


def test_sparse_tables_and_arrays_of_every_order_have_the_same_codes(seed: int, tmp_path) -> None:
    random = np.random.default_rng(seed)
    X = random.integers(0, 3, (300, 40)).astype(np.float32)
    mapped = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", X.dtype, X.shape)
    mapped[:] = X
    tables = [X, np.asfortranarray(X), as_table(csr_matrix(X)), as_table(mapped)]
    assert len({EncodedTable.of(each).fingerprint for each in tables}) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": 7}, "bits=7: choose an even number from 2 to 16"),
        ({"y": [1.0]}, "y has shape (1,), but the table has 3 rows"),
        ({"y": ["a", "b", "c"]}, "y holds <U1 values: numbers are needed"),
        ({"groups": [0.5, 1, 2]}, "groups holds values that are not finite, or no int64: change or drop them"),
        ({"weights": [np.nan, 1, 2]}, "weights holds values that are not finite, or no float64: change or drop them"),
    ],
)
def test_errors(options: dict[str, object], message: str) -> None:
    with pytest.raises(DataError) as error:
        EncodedTable.of(np.arange(6.0).reshape(3, 2), **options)
    assert str(error.value) == message


def test_wrong_choices_are_errors() -> None:
    table = EncodedTable.of(np.array([[1.0, 2.0, 3.0], [4.0, 2.0, 5.0]])).renamed(["a", "b", "c"])
    for columns in (["d"], [3], [1], []):
        with pytest.raises(DataError):
            table.take_columns(columns)
    with pytest.raises(DataError, match="every column of X is constant"):
        EncodedTable.of(np.ones((3, 2)))


def test_clipped_columns_are_named() -> None:
    X = np.random.default_rng(0).normal(size=(1000, 2))
    X[3, 1] = 1e6
    with pytest.warns(UserWarning, match=r"1 column\(s\) hold values beyond their scales, which are clipped: 1"):
        table = EncodedTable.of(X)
    assert table.clipped.tolist() == [0.0, 0.001]
