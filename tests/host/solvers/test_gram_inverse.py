"""Pseudo-inverses of Gram matrices against those of singular values of the rows."""

import numpy as np
import pytest

from bitlane.encoded.coded_rows import Floats
from bitlane.solvers.gram_inverse import GramInverse


def singular_rows(random: np.random.Generator, rows: int, independent: int, columns: int) -> Floats:
    """Rows of small integers, of which some columns are combinations of the others: products of them are exact."""
    base = random.integers(-9, 10, (rows, independent)).astype(float)
    chosen = random.integers(0, independent, (2, columns - independent))
    X = np.column_stack([base, base[:, chosen[0]] - 2 * base[:, chosen[1]] * (chosen[0] != chosen[1])])
    return X[:, random.permutation(columns)]


@pytest.mark.parametrize("alpha", [0.0, 3.0])
def test_random_matrices(seed: int, alpha: float) -> None:
    random = np.random.default_rng(seed)
    for _ in range(4):
        independent = int(random.integers(1, 100))
        columns = independent + int(random.choice([0, 1, random.integers(1, 80)]))
        X = singular_rows(random, 4 * columns, independent, columns)
        X = np.insert(X, int(random.integers(columns + 1)), 0.0, axis=1) * 2.0 ** random.integers(-3, 4, columns + 1)
        constant = ~X.any(axis=0)
        rank = int((~constant).sum()) if alpha else int(np.linalg.matrix_rank(X))
        found = GramInverse(X.T @ X, alpha, constant)
        assert found.rank == rank
        expected = np.linalg.pinv(np.vstack([X, np.sqrt(alpha) * np.diag(1.0 - constant)]))
        expected = expected @ expected.T
        slack = 1e-7 * np.abs(expected).max()
        np.testing.assert_allclose(found @ np.eye(columns + 1), expected, rtol=0, atol=slack)
        np.testing.assert_allclose(found.diagonal(), np.diag(expected), rtol=0, atol=slack)


def test_columns_of_rare_values_are_independent(seed: int) -> None:
    """One value in many rows has a variance that is small beside others, and is no rounding."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(300, 3)) * [1e6, 1.0, 1e-6]
    X[:, 2] = 0
    X[int(random.integers(300)), 2] = 1e-6
    found = GramInverse(X.T @ X, 0.0, np.zeros(3, bool))
    assert found.rank == 3
    expected = np.linalg.inv((X / X.std(axis=0)).T @ (X / X.std(axis=0))) / X.std(axis=0) / X.std(axis=0)[:, None]
    np.testing.assert_allclose(found.diagonal(), np.diag(expected), rtol=1e-8)
