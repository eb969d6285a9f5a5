"""Least squares from moments against textbook formulas in float64 on the same decoded rows."""

import numpy as np
import pytest
from numpy.typing import NDArray

from bitlane.encoded.coded_rows import CodedArray, CodeScale, Floats
from bitlane.errors import DataError
from bitlane.solvers.least_squares import fold_errors, ridge, ridge_path, squared_errors, standard_errors
from bitlane.solvers.moments import Moments, coded_fold_moments, coded_moments, float_moments


def random_rows(random: np.random.Generator, rows: int, columns: int, bits: int = 8) -> CodedArray:
    """Codes of columns with scales and centers of many sizes."""
    top = 1 << (bits - 1)
    codes = np.clip(random.normal(0, top / 3, (rows, columns)), -top, top - 1).astype(np.int8)
    scale = CodeScale(random.normal(size=columns) * 10, 10.0 ** random.uniform(-3, 3, columns))
    return CodedArray(codes, scale, bits)


def random_targets(random: np.random.Generator, rows: int) -> Floats:
    return random.normal(3, 2, (rows, int(random.integers(1, 4)))) * 10.0 ** random.integers(-3, 4)


def textbook(X: Floats, Y: Floats, w: Floats, alpha: float, intercept: bool = True) -> tuple[Floats, Floats]:
    """Minimum norm solution of ridge regression by singular values of rows, with an intercept."""
    mean, target = (w @ X / w.sum(), w @ Y / w.sum()) if intercept else (np.zeros(X.shape[1]), np.zeros(Y.shape[1]))
    root = np.sqrt(w)[:, None]
    A = np.vstack([root * (X - mean), np.sqrt(alpha) * np.eye(X.shape[1])])
    v = np.linalg.lstsq(A, np.vstack([root * (Y - target), np.zeros((X.shape[1], Y.shape[1]))]), rcond=None)[0]
    return v, target - mean @ v


def condition_of(X: Floats) -> float:
    """Condition of the columns in units of their lengths, without directions that have none."""
    length = np.sqrt((X**2).sum(axis=0))
    sizes = np.linalg.svd(X[:, length > 0] / length[length > 0], compute_uv=False)
    return float(sizes[0] / sizes[sizes > 1e-6 * sizes[0]][-1]) if len(sizes) else 1.0


def same_predictions(X: Floats, found: tuple[Floats, Floats], expected: tuple[Floats, Floats]) -> None:
    """Normal equations lose the square of the condition of the columns, those that depend on others aside."""
    ours, theirs = X @ found[0] + found[1], X @ expected[0] + expected[1]
    condition = max(condition_of(X), condition_of(X - X.mean(axis=0)))
    slack = 1e-7 + 16 * np.finfo(float).eps * condition**2
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=slack * max(np.ptp(theirs), 1e-12))


def test_random_tables(seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(30):
        columns = int(random.integers(1, 20))
        rows = random_rows(random, int(random.integers(columns + 3, 400)), columns, int(random.choice([2, 4, 6, 8])))
        X, Y = rows.scale.values(rows.codes), random_targets(random, len(rows.codes))
        alpha = float(random.choice([0.0, 1e-3, 10.0]))
        intercept = bool(random.integers(2))
        weights = random.choice([None, "integer", "float"])
        w = np.ones(len(X))
        if weights:
            w = random.integers(0, 9, len(X)).astype(float) if weights == "integer" else random.uniform(0, 2, len(X))
            w[: columns + 2] = 1
        found = ridge(coded_moments(rows, Y, w if weights else None), alpha, intercept)
        same_predictions(X, (found.coefficients, found.intercepts), textbook(X, Y, w, alpha, intercept))
        errors = w @ (X @ found.coefficients + found.intercepts - Y) ** 2 / w.sum()
        np.testing.assert_allclose(found.squared_errors, errors, rtol=1e-5, atol=1e-8 * float(np.var(Y)))


def test_combinations_of_columns_have_the_least_coefficients(seed: int) -> None:
    random = np.random.default_rng(seed)
    codes = random.integers(-60, 60, (300, 4)).astype(np.int8)
    codes = np.column_stack([codes, codes[:, 0] + codes[:, 1], codes[:, 2], np.full(300, 7, np.int8)])
    scale = CodeScale(np.arange(7.0), 2.0 ** random.integers(-4, 4, 7))
    rows = CodedArray(codes, scale)
    X, Y = scale.values(codes), random_targets(random, 300)
    found = ridge(coded_moments(rows, Y))
    assert (found.rank, found.varying) == (4, 6)
    expected = textbook(X, Y, np.ones(300), 0.0)
    np.testing.assert_allclose(found.coefficients, expected[0], rtol=1e-7, atol=1e-9 * np.abs(expected[0]).max())
    assert (found.coefficients[6] == 0).all()


def test_fewer_rows_than_columns(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = random_rows(random, 12, 30)
    rows.scale = CodeScale(rows.scale.center, np.ones(30))
    X, Y = rows.scale.values(rows.codes), random_targets(random, 12)
    found = ridge(coded_moments(rows, Y))
    assert found.rank == 11
    np.testing.assert_allclose(X @ found.coefficients + found.intercepts, Y, rtol=0, atol=1e-8 * np.abs(Y).max())
    expected = textbook(X, Y, np.ones(12), 0.0)[0]
    np.testing.assert_allclose(found.coefficients, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


def close(found: Moments, expected: Moments) -> None:
    for name in ("gram", "sums", "products", "target_sums", "target_squares"):
        a, b = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-9 * max(np.abs(b).max(), 1e-300))
    assert (found.rows, found.weight) == (expected.rows, expected.weight)


def test_weights_are_repeated_rows_and_moments_add_up(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, w = random_rows(random, 500, 7), random.integers(0, 300, 500)
    Y = random.integers(-50_000, 50_000, (500, 2)).astype(float)
    repeated = CodedArray(np.repeat(rows.codes, w, axis=0), rows.scale)
    weighted, expected = coded_moments(rows, Y, w), coded_moments(repeated, np.repeat(Y, w, axis=0))
    expected = expected.about(weighted.center, weighted.target_center)
    assert weighted.rows == np.count_nonzero(w)
    close(weighted, Moments(**{**vars(expected), "rows": weighted.rows}))
    cut = int(random.integers(1, 499))
    parts = [
        coded_moments(CodedArray(rows.codes[part], rows.scale), Y[part], w[part])
        for part in (slice(0, cut), slice(cut, 500))
    ]
    close(sum(parts[1:], parts[0]).about(weighted.center, weighted.target_center), weighted)
    close((sum(parts[1:], parts[0]) - parts[1]).about(parts[0].center, parts[0].target_center), parts[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_of_floats(seed: int, dtype: type) -> None:
    random = np.random.default_rng(seed)
    X = (random.normal(2000, 1, (400, 5)) * [1, 1, 1, 10, 0]).astype(dtype)
    Y = random_targets(random, 400)
    w = random.uniform(0, 1, 400)
    found = ridge(float_moments(X, Y, w))
    assert (found.rank, found.varying) == (4, 4)
    wide: NDArray[np.float64] = X.astype(np.float64)
    ours = wide @ found.coefficients + found.intercepts
    v, b = textbook(wide[:, :4], Y, w, 0.0)
    np.testing.assert_allclose(ours, wide[:, :4] @ v + b, rtol=0, atol=1e-8 * np.std(Y))


def test_folds_are_fits_without_them(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, folds = random_rows(random, 300, 6), random.permutation(np.arange(300) % 4)
    X, Y = rows.scale.values(rows.codes), random_targets(random, 300)
    alphas = [0.0, 1.0, 1e4]
    errors = fold_errors(coded_fold_moments(rows, Y, folds), alphas)
    assert errors.shape == (4, 3, Y.shape[1])
    for fold in range(4):
        out = folds == fold
        for i, alpha in enumerate(alphas):
            v, b = textbook(X[~out], Y[~out], np.ones(int((~out).sum())), alpha)
            expected = np.mean((X[out] @ v + b - Y[out]) ** 2, axis=0)
            np.testing.assert_allclose(errors[fold, i], expected, rtol=1e-6)


def test_a_path_is_one_fit_for_each_penalty(seed: int) -> None:
    random = np.random.default_rng(seed)
    codes = random.integers(-128, 128, (200, 8)).astype(np.int8)
    moments = coded_moments(CodedArray(codes, CodeScale(np.zeros(8), np.ones(8))), random_targets(random, 200))
    alphas = list(np.geomspace(1e-2, 1e8, 40))
    for alpha, found in zip(alphas, ridge_path(moments, alphas), strict=True):
        alone = ridge(moments, alpha)
        np.testing.assert_allclose(found.coefficients, alone.coefficients, rtol=1e-7, atol=1e-12)


def test_standard_errors(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = random_rows(random, 100, 4)
    X, Y = rows.scale.values(rows.codes), random_targets(random, 100)
    moments = coded_moments(rows, Y)
    found = standard_errors(moments)
    design = np.column_stack([np.ones(100), X])
    left = Y - design @ np.linalg.lstsq(design, Y, rcond=None)[0]
    scale = np.abs(design).max(axis=0)
    inverse = np.linalg.inv((design / scale).T @ (design / scale)) / scale / scale[:, None]
    expected = np.sqrt(np.diag(inverse)[:, None] * (left**2).sum(axis=0) / (100 - 5))
    np.testing.assert_allclose(found[0], expected[1:], rtol=1e-5)
    np.testing.assert_allclose(found[1], expected[0], rtol=1e-5)


def test_errors_name_the_cause() -> None:
    codes = np.array([[1, 1], [2, 2], [4, 4], [5, 5]], np.int8)
    moments = coded_moments(CodedArray(codes, CodeScale(np.zeros(2), np.ones(2))), np.arange(4.0))
    with pytest.raises(ValueError, match="alpha is -1"):
        ridge(moments, -1.0)
    with pytest.raises(DataError, match="2 vary, with a rank of 1"):
        standard_errors(moments)
    with pytest.raises(DataError, match="got 2 rows"):
        standard_errors(float_moments(np.eye(2)[:, :1], np.arange(2.0)))
    with pytest.raises(ValueError, match="got 1"):
        fold_errors([moments], [1.0])
    with pytest.raises(ValueError, match="a row with a weight"):
        ridge(moments - moments)
    assert squared_errors(moments, np.zeros((2, 1)), np.zeros(1)) == pytest.approx(3.5)
