"""Passes over a matrix of gradients, against the formulas in float64."""

import numpy as np
import pytest
import torch

from bitlane.compress.compressors import matrix
from bitlane.compress.compressors.matrix import GradientMatrix

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
SHAPES = [(1, 1), (7, 1), (1, 9), (40, 33), (300, 500)]  # the last in several blocks


def drawn(rng, *shape):
    return torch.from_numpy(rng.standard_normal(shape).astype(np.float32))


def near(found, exact, terms):
    """Return whether values are equal up to `terms` roundings of float32."""
    return bool((found.double() - exact).abs().max() <= terms * 2.0**-22 * (1 + exact.abs().max()))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rank", [1, 4])
def test_a_step_follows_the_formulas(shape, rank, seed):
    rng = np.random.default_rng(seed)
    m, n = shape
    whole, residual = GradientMatrix(m, n, rank, CPU), torch.zeros(shape, dtype=torch.float64)
    for _ in range(4):
        gradient, q, p, sent = drawn(rng, m, n), drawn(rng, rank, n), drawn(rng, rank, m), drawn(rng, rank, n)
        times, transposed, product = torch.empty(rank, m), torch.empty(rank, n), torch.empty(m, n)
        whole.times(gradient, q, times)
        exact = residual + gradient.double()
        assert near(times, (exact @ q.double().T).T, 5 * n)
        whole.transposed_times(p, transposed)
        assert near(transposed, (exact.T @ p.double().T).T, 5 * m)
        whole.product(p, q, product)
        assert near(product, p.double().T @ q.double(), rank)
        whole.keep(p, sent)
        residual = exact - p.double().T @ sent.double()
    assert near(whole.residual(), residual, 4 * (rank + 2))


def test_reading_the_residual_changes_no_bit(seed):
    """The deferred computation gives the same bits as an immediate one."""

    def run(look):
        rng = np.random.default_rng(seed)
        whole, found = GradientMatrix(300, 500, 3, CPU), torch.empty(3, 300)
        for _ in range(3):
            whole.times(drawn(rng, 300, 500), drawn(rng, 3, 500), found)
            whole.keep(drawn(rng, 3, 300), drawn(rng, 3, 500))
            if look:
                whole.residual()
                whole.residual()
        return found, whole.residual()

    assert 300 > matrix.BLOCK // 500 > 0
    assert all(torch.equal(a, b) for a, b in zip(run(False), run(True), strict=True))
