"""Hessians of sampled rows against those of all rows."""

import numpy as np

from bitlane.solvers.sampled_hessian import HessianSample


def test_they_are_right_on_average(seed: int) -> None:
    """The mean of many samples is within six standard errors of the Hessian of all rows, entry by entry."""
    random = np.random.default_rng(seed)
    rows, columns, draws = 2_000, 5, 400
    codes = random.integers(-128, 128, (rows, columns)).astype(np.int8)
    drawn_by, now = (random.gamma(0.3, size=rows).astype(np.float32) for _ in range(2))
    sample = HessianSample(rows, columns, seed=seed)
    sample.wanted = 100
    found = np.empty((draws, columns + 1, columns + 1))
    for each in found:
        sample.draw([drawn_by])
        (weights,) = sample.weights([now])
        each[:] = sample.moments(codes[sample.kept], weights)
    full = np.c_[codes, np.ones(rows)].astype(np.float64)
    expected = (full * now[:, None].astype(np.float64)).T @ full
    error = found.std(axis=0) / np.sqrt(draws)
    assert (np.abs(found.mean(axis=0) - expected) < 6 * error + 0.02 * np.abs(np.diag(expected)).max()).all()
    np.testing.assert_array_equal(found, found.transpose(0, 2, 1))


def test_all_rows_are_not_sampled(seed: int) -> None:
    random = np.random.default_rng(seed)
    codes = random.integers(-128, 128, (300, 4)).astype(np.int8)
    curvatures = random.random(300, np.float32)
    sample = HessianSample(300, 4, seed=seed)
    sample.draw([curvatures])
    (weights,) = sample.weights([curvatures])
    full = np.c_[codes, np.ones(300)].astype(np.float64)
    expected = (full * curvatures[:, None].astype(np.float64)).T @ full
    np.testing.assert_allclose(sample.moments(codes, weights), expected, rtol=1e-5, atol=1e-5 * expected.max())
