"""First weights: from seed, key and place alone, the same on every machine."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.sparse_textbook import first_weight

from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad
from bitlane.sparse.parameters.sparse import SparseParameters

BLOCKS = [
    ParameterBlock(1, FTRL()),
    ParameterBlock(3, SGD(), 0.01),
    ParameterBlock(4, AdaGrad(), 0.5, "uniform"),
    ParameterBlock(2, FTRL(l1=1.0), 0.1),
]


def keys_of(rng, count=50):
    return np.append(rng.integers(0, 2**64, count - 2, dtype=np.uint64), np.array([0, 2**64 - 1], np.uint64))


def test_first_weights_are_the_textbooks(seed: int) -> None:
    keys = keys_of(np.random.default_rng(seed))
    parameters = SparseParameters(BLOCKS, seed)
    weights = parameters.weights_of(parameters.initial_rows(keys))
    places = [(0.0, "normal")] + [(0.01, "normal")] * 3 + [(0.5, "uniform")] * 4 + [(0.1, "normal")] * 2
    expected = [
        [first_weight(seed, key, place, *each) if each[0] else 0.0 for place, each in enumerate(places)]
        for key in keys.tolist()
    ]
    assert np.allclose(weights, expected, rtol=1e-6, atol=5e-8)


def test_first_rows_do_not_depend_on_order_or_company(seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = keys_of(rng)
    parameters = SparseParameters(BLOCKS, seed)
    rows = parameters.initial_rows(keys)
    order = rng.permutation(len(keys))
    assert np.array_equal(parameters.initial_rows(keys[order]), rows[order])
    alone = [parameters.initial_rows(keys[at : at + 1])[0] for at in range(len(keys))]
    assert np.array_equal(alone, rows)
    parameters.pull(keys[order[:20]], create=True)
    parameters.pull(keys, create=True)
    assert np.array_equal(parameters.table.gather(keys), rows)


def test_another_seed_gives_other_weights(seed: int) -> None:
    keys = keys_of(np.random.default_rng(seed))
    one, other = (SparseParameters(BLOCKS, each).initial_rows(keys) for each in (seed, seed + 1))
    factors = slice(2, 9)
    assert (one[:, factors] != other[:, factors]).mean() > 0.7  # all but the accumulators


@pytest.mark.parametrize(
    ("initial", "mean", "spread", "least", "most"),
    [("normal", 0.0, 0.2, -0.8, 0.8), ("uniform", 0.1, 0.2 / 12**0.5, 0.0, 0.2)],
)
def test_the_scale_is_the_documented_one(seed: int, initial: str, mean, spread, least, most) -> None:
    parameters = SparseParameters([ParameterBlock(4, SGD(), 0.2, initial)], seed)
    weights = parameters.initial_rows(np.arange(20_000, dtype=np.uint64))
    assert least <= weights.min() and weights.max() <= most
    error = spread / 80_000**0.5  # of the mean of independent draws
    assert abs(weights.mean() - mean) < 7 * error
    assert abs(weights.std() / spread - 1) < 0.02
    centred = weights - weights.mean(axis=0)
    products = centred.T @ centred / 20_000 / spread**2
    assert np.abs(products - np.eye(4)).max() < 0.06  # places do not follow each other
