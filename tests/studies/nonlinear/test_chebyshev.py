"""The polynomial of the sigmoid, and its estimates from independent draws."""

from itertools import combinations, pairwise
from math import prod

import numpy as np
import pytest
from numpy.polynomial import Chebyshev

from bitlane_studies.nonlinear.chebyshev import chebyshev_series, leave_one_out, sigmoid_polynomial
from bitlane_studies.nonlinear.lattice import Lattice

REPEATS = 40_000


def sigmoid(score):
    return 1 / (1 + np.exp(-score))


@pytest.mark.parametrize("radius", [1, 4, 8, 16])
@pytest.mark.parametrize("degree", [1, 3, 5, 7])
def test_coefficients_equal_those_of_numpy(degree, radius):
    """The reference is an interpolation of degree 180, whose remainder is negligible, truncated to the degree."""
    grid = np.linspace(-1, 1, 501)
    whole = Chebyshev.interpolate(lambda t: sigmoid(radius * t), 180)
    mine = chebyshev_series(lambda t: sigmoid(radius * t), degree)
    assert mine == pytest.approx(whole.coef[: degree + 1], abs=1e-12)
    powers = sigmoid_polynomial(degree, radius)
    assert np.polyval(powers[::-1], grid) == pytest.approx(Chebyshev(whole.coef[: degree + 1])(grid), abs=1e-11)
    assert powers[0] == pytest.approx(0.5) and powers[2::2] == pytest.approx(0, abs=1e-12)


def test_the_error_decreases_with_the_degree():
    grid = np.linspace(-1, 1, 501)
    errors = [np.abs(np.polyval(sigmoid_polynomial(d, 8)[::-1], grid) - sigmoid(8 * grid)).max() for d in (1, 3, 5, 7)]
    assert all(later < 0.7 * earlier for earlier, later in pairwise(errors)) and errors[-1] < 0.05


@pytest.mark.parametrize("degree", [1, 2, 3, 5])
def test_estimates_are_means_of_all_products(seed, degree):
    """The reference computes every product separately."""
    rng = np.random.default_rng(seed)
    scores, coefficients = rng.normal(size=(degree + 1, 7)), rng.normal(size=degree + 1)
    found = leave_one_out(scores, coefficients)
    for k in range(degree + 1):
        others = [scores[j] for j in range(degree + 1) if j != k]
        by_power = [np.mean([prod(some) for some in combinations(others, i)], axis=0) for i in range(1, degree + 1)]
        expected = coefficients[0] + sum(c * each for c, each in zip(coefficients[1:], by_power, strict=True))
        np.testing.assert_allclose(found[k], expected)


@pytest.mark.parametrize("degree", [1, 3, 5])
def test_the_gradient_of_the_polynomial_is_unbiased(seed, degree):
    """The mean gradient is within 6 standard errors of float64; with one draw for all factors it is off by 4.5."""
    rng = np.random.default_rng(seed)
    row, weights = rng.uniform(0.3, 0.7, 6), rng.uniform(0.8, 1.2, 6)
    coefficients = rng.uniform(0.5, 1, degree + 1)
    expected = np.polyval(coefficients[::-1], row @ weights) * row

    def mean_and_error(copies):
        """Return the mean gradient of copies [degree + 1, REPEATS, 6] and its standard error."""
        slopes = leave_one_out(copies @ weights, coefficients)
        gradients = np.mean(slopes[..., None] * copies, axis=0)
        return gradients.mean(axis=0), gradients.std(axis=0) / np.sqrt(REPEATS)

    draws = Lattice(2).draws(np.tile(row, (REPEATS, 1)), degree + 1, rng)
    mean, error = mean_and_error(draws)
    assert (np.abs(mean - expected) < 6 * error).all()
    mean, error = mean_and_error(np.repeat(draws[:1], degree + 1, axis=0))
    assert (np.abs(mean - expected) > 4.5 * error).any()
