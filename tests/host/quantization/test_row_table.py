"""Rows of tables that are not arrays in memory, chosen again and again, against numpy."""

import numpy as np
import pytest

from bitlane.quantization import row_table
from bitlane.quantization.row_table import RowTable, dense_pieces


def choices(rng):
    """Chains of slices and row numbers."""
    for _ in range(20):
        chain, rows = [], 40
        for _ in range(int(rng.integers(1, 4))):
            if rng.random() < 0.5 and rows:
                chosen = rng.integers(0, rows, int(rng.integers(0, 50)))
            else:
                bounds = sorted(rng.integers(0, 45, 2).tolist())
                chosen = slice(*bounds, int(rng.integers(1, 4)))
            chain.append(chosen)
            rows = len(np.empty(rows)[chosen])
        yield chain


@pytest.mark.parametrize("kind", ["array", "csr_array"])
def test_rows_of_rows(seed, kind):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, (40, 6)).astype(np.float32)
    source = np.asfortranarray(X) if kind == "array" else getattr(pytest.importorskip("scipy.sparse"), kind)(X)
    weights = rng.normal(size=(6, 2))
    for chain in choices(rng):
        table, expected = RowTable(source, np.dtype(np.float64)), X.astype(np.float64)
        for chosen in chain:
            table, expected = table[chosen], expected[chosen]
        found = np.asarray(table)
        assert found.dtype == np.float64 and found.flags.c_contiguous and np.array_equal(found, expected)
        assert (table.shape, len(table), table.size) == (expected.shape, len(expected), expected.size)
        assert table.nbytes == expected.nbytes and table.dtype == expected.dtype
        assert np.asarray(table, np.int16).dtype == np.int16
        assert table @ weights == pytest.approx(expected @ weights, abs=1e-12)


def test_pieces_are_all_rows_in_order(seed, monkeypatch):
    X = np.random.default_rng(seed).normal(size=(40, 6))
    for piece in (1, 6, 70, 10_000):
        monkeypatch.setattr(row_table, "PIECE", piece)
        for table in (X, RowTable(X, X.dtype)):
            pieces = list(dense_pieces(table))
            assert np.array_equal(np.concatenate(pieces), X)
            assert {len(each) for each in pieces[:-1]} <= {max(1, piece // 6)}
    assert [each.shape for each in dense_pieces(X[:0])] == [(0, 6)]
