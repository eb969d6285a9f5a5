"""Uniform levels, and draws between them."""

import numpy as np
import pytest

from bitlane.contract.precision import Precision
from bitlane.quantization.positions import value_positions
from bitlane.quantization.quantize import base_codes
from bitlane_studies.nonlinear.lattice import Lattice


@pytest.mark.parametrize("base_bits", [2, 4, 8])
def test_intervals_equal_the_stored_codes(seed, base_bits):
    values = np.append(np.random.default_rng(seed).uniform(-1, 1, (200, 5)), [[-1, 0, 1, 0.5, -0.5]], axis=0)
    precision = Precision(base_bits + 2)
    codes = base_codes(value_positions(values, precision), precision).astype(float)
    assert Lattice(base_bits).lower(values).tolist() == (codes * 2.0 ** (1 - base_bits) - 1).tolist()


@pytest.mark.parametrize("base_bits", [1, 3, 7])
def test_draws_are_interval_ends_and_unbiased(seed, base_bits):
    rng = np.random.default_rng(seed)
    values, lattice, count = rng.uniform(-1, 1, 50), Lattice(base_bits), 4000
    drawn = lattice.draws(values, count, rng)
    lower = lattice.lower(values)
    assert np.isin((drawn - lower) / lattice.width, (0, 1)).all()
    assert (np.abs(lattice.middles(values) - values) <= lattice.width / 2).all()
    place = (values - lower) / lattice.width
    error = (drawn.mean(axis=0) - values) / (lattice.width * np.sqrt(place * (1 - place) / count) + 1e-9)
    assert abs(error.mean()) < 4 / np.sqrt(50)  # 4 standard errors
    pairs = np.mean((drawn[::2] - values) * (drawn[1::2] - values), axis=0) / (lattice.width**2 * place * (1 - place))
    assert abs(pairs.mean()) < 4 / np.sqrt(50 * count / 2)


def test_the_ends_of_the_range_are_levels(seed):
    values = np.array([-1.0, 1.0])
    assert (Lattice(3).draws(values, 100, np.random.default_rng(seed)) == values).all()
