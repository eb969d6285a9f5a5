"""Refinement on exact rows against least squares by singular values."""

from typing import Any

import numpy as np
import pytest
import scipy.linalg

from bitlane.encoded.coded_rows import CodedArray, CodeScale, Floats
from bitlane.quantization.row_table import RowTable
from bitlane.solvers.least_squares import CenteredMoments, LeastSquares, ridge
from bitlane.solvers.moments import Moments, coded_moments
from bitlane.solvers.refinement import Refinement, refine


def encoded(X: Floats, bits: int, share: float = 1.0) -> CodedArray:
    """Nearest codes; a share of the range below 1 clips values."""
    low, high = X.min(axis=0), X.max(axis=0)
    center, half = (low + high) / 2, np.maximum((high - low) / 2 * share, 1e-12)
    top = 1 << (bits - 1)
    codes = np.clip(np.floor((X - center) / half * top), -top, top - 1).astype(np.int8)
    return CodedArray(codes, CodeScale(center, half / top), bits)


def design(random: np.random.Generator, rows: int, columns: int) -> tuple[Floats, Floats]:
    X = random.normal(size=(rows, columns)) @ random.normal(size=(columns, columns)) + 5 * random.normal(size=columns)
    X *= 10.0 ** random.uniform(-2, 2, columns)
    Y = X @ random.normal(size=(columns, 3)) / X.std(axis=0).mean() + random.normal(size=(rows, 3))
    return X, Y + 100


def refined(moments: Moments, X: Any, Y: Floats, *more: Any, alpha: float = 0.0, intercept: bool = True) -> Refinement:
    """Refine the solution on codes; `more` is weights and the number of steps."""
    centered = CenteredMoments.of(moments, intercept)
    start, inverse = centered.ridge(alpha)
    return refine(start, centered, inverse, X, Y, *more)


def optimum(X: Floats, Y: Floats, w: Floats, alpha: float) -> tuple[Floats, Floats]:
    """Objective [K] and coefficients at the minimum."""
    root = np.sqrt(w)[:, None]
    mean, target = w @ X / w.sum(), w @ Y / w.sum()
    A = np.vstack([root * (X - mean), np.sqrt(alpha) * np.eye(X.shape[1])])
    B = np.vstack([root * (Y - target), np.zeros((X.shape[1], Y.shape[1]))])
    scale = np.sqrt((A**2).sum(axis=0))
    v = np.linalg.lstsq(A / scale, B, rcond=None)[0] / scale[:, None]
    return ((A @ v - B) ** 2).sum(axis=0), v


def convergence(X: Floats, w: Floats, gram: Floats, alpha: float, steps: int) -> float:
    """Bound of the excess after conjugate gradients, over the first one (Saad, Iterative Methods, equation 6.128).

    `gram` [m, m] with `alpha` is the preconditioner.
    """
    centered = np.sqrt(w)[:, None] * (X - w @ X / w.sum())
    values = scipy.linalg.eigh(
        centered.T @ centered + alpha * np.eye(len(gram)), gram + alpha * np.eye(len(gram)), eigvals_only=True
    )
    root = np.sqrt(values[-1] / values[0])
    return float(2 * ((root - 1) / (root + 1)) ** steps) ** 2


@pytest.mark.parametrize(("bits", "steps"), [(8, 3), (6, 6), (4, 12)])
@pytest.mark.parametrize("weighted", [False, True])
def test_few_steps_reach_the_optimum(seed: int, bits: int, steps: int, weighted: bool) -> None:
    random = np.random.default_rng(seed)
    X, Y = design(random, 600, 12)
    w = random.integers(0, 4, 600).astype(float) if weighted else np.ones(600)
    alpha = float(random.choice([0.0, 1e-2]))
    moments = coded_moments(encoded(X, bits), Y, w if weighted else None)
    table = RowTable(X, X.dtype) if random.integers(2) else X
    found = refined(moments, table, Y, w if weighted else None, steps, alpha=alpha)
    best, _ = optimum(X, Y, w, alpha)

    def objective(solution: LeastSquares) -> tuple[Floats, Floats]:
        errors = w @ (X @ solution.coefficients + solution.intercepts - Y) ** 2
        return errors, errors + alpha * (solution.coefficients**2).sum(axis=0)

    first, (errors, last) = objective(ridge(moments, alpha))[1], objective(found.solution)
    bound = convergence(X, w, CenteredMoments.of(moments, True).gram, alpha, found.reads - 1)
    assert (last - best <= bound * (first - best) + 1e-11 * best).all()
    np.testing.assert_allclose(found.solution.squared_errors, errors / w.sum(), rtol=1e-8)
    assert found.reads == steps + 1 or (last / best - 1 < 1e-10).all()


def test_three_steps_from_eight_bits_reach_the_optimum() -> None:
    random = np.random.default_rng(1)
    excess = []
    for _ in range(20):
        X, Y = design(random, 600, 12)
        moments = coded_moments(encoded(X, 8), Y)
        v = refined(moments, X, Y, None, 3).solution
        best, _ = optimum(X, Y, np.ones(600), 0.0)
        excess.append((((X @ v.coefficients + v.intercepts - Y) ** 2).sum(axis=0) / best - 1).max())
    assert np.median(excess) < 1e-10


def test_clipped_columns_are_told_and_mended(seed: int) -> None:
    random = np.random.default_rng(seed)
    X, Y = design(random, 500, 6)
    X[3, 2] += 100 * X[:, 2].std()
    moments = coded_moments(encoded(X, 8, 0.05), Y)
    start, _ = CenteredMoments.of(moments, True).ridge(0.0)
    told = refined(moments, X, Y, None, 0)
    best, _ = optimum(X, Y, np.ones(500), 0.0)
    exact = ((X @ start.coefficients + told.solution.intercepts - Y) ** 2).sum(axis=0)
    np.testing.assert_allclose(told.solution.squared_errors, exact / 500, rtol=1e-8)
    assert told.reads == 1
    assert (told.excess[exact > 1.01 * best] > 1e-4).all()
    found = refined(moments, X, Y, None, 30)
    assert (found.solution.squared_errors * 500 / best - 1 < 1e-8).all()
    assert (found.correlation < 1e-4).all()


def test_a_solution_without_intercept(seed: int) -> None:
    random = np.random.default_rng(seed)
    X, Y = design(random, 300, 4)
    moments = coded_moments(encoded(X, 8), Y)
    found = refined(moments, X, Y, None, 6, intercept=False)
    expected = np.linalg.lstsq(X / X.std(axis=0), Y, rcond=None)[0] / X.std(axis=0)[:, None]
    np.testing.assert_allclose(X @ found.solution.coefficients, X @ expected, rtol=0, atol=1e-4 * np.ptp(Y))
    assert (found.solution.intercepts == 0).all()
