"""Codes that say all of the values: they decode to the table, or there are none."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from bitlane.quantization.row_table import RowTable
from bitlane.solvers.exact_codes import exact_codes

INTEGERS = [np.uint8, np.int8, np.int16, np.int32, np.int64]


def integers(random: np.random.Generator, rows: int, columns: int) -> Any:
    """Columns anywhere, of up to 256 levels."""
    spans = random.integers(0, 256, columns)
    spans[0] = 255
    low = random.integers(-10_000, 10_000, columns)
    values = random.integers(0, spans + 1, (rows, columns))
    values[0], values[1] = 0, spans
    return low + values[random.permutation(rows)]


@pytest.mark.parametrize("dtype", [*INTEGERS, np.float32, np.float64])
def test_integers_are_exact(seed: int, dtype: type) -> None:
    random = np.random.default_rng(seed)
    X = integers(random, int(random.integers(2, 500)), int(random.integers(1, 300)))
    X = X.astype(dtype)  # wraps in 8 bits
    found = exact_codes(RowTable(X, X.dtype) if random.integers(2) else X)
    assert found is not None
    np.testing.assert_array_equal(found.scale.values(found.codes), X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_other_steps_are_exact_to_rounding(seed: int, dtype: type) -> None:
    random = np.random.default_rng(seed)
    step = 10.0 ** random.uniform(-6, 6)
    X = ((integers(random, 400, 7) - random.integers(-10_000, 10_000)) % 256 * step).astype(dtype)
    found = exact_codes(X)
    assert found is not None
    tolerance = 2 * step / 2**10
    np.testing.assert_allclose(found.scale.values(found.codes), X, rtol=0, atol=tolerance)


def test_sparse_tables(seed: int) -> None:
    X = scipy.sparse.random(300, 40, 0.1, "csr", np.float32, rng=np.random.default_rng(seed))
    X.data[:] = 1
    found = exact_codes(RowTable(X, X.dtype))
    assert found is not None
    np.testing.assert_array_equal(found.scale.values(found.codes), X.toarray())


def test_one_value_between_levels_or_beyond_them_is_enough_for_none(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, columns = 200_000, 3  # a sample sees few of them
    X = random.integers(0, 256, (rows, columns)).astype(np.float32)
    assert exact_codes(X) is not None
    for wrong in (17.25, 256.0, -1.0):
        changed = X.copy()
        changed[int(random.integers(rows)), int(random.integers(columns))] = wrong
        changed[:2] = [[0], [255]]
        assert exact_codes(changed) is None
    assert exact_codes(X.astype(np.int16) * 2) is None
    assert exact_codes(random.normal(size=(100, 3))) is None
    assert exact_codes(np.ones((5, 2))) is None
