"""Orthonormal columns: right angles, the same span, and dependent columns."""

import numpy as np
import pytest
import torch

from bitlane.compress.compressors import orthonormal
from bitlane.compress.compressors.orthonormal import orthonormalize

pytestmark = pytest.mark.torch


def drawn(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def angles(columns):
    """Return the products of all pairs of columns, float64 [r, r]."""
    exact = columns.double()
    return exact @ exact.T


def test_columns_are_orthonormal_and_span_the_same(seed):
    columns = drawn(seed, 5, 300) * torch.tensor([1e-12, 1e12, 1.0, 1e-3, 1e5])[:, None]
    [found] = orthonormalize([columns])
    assert torch.allclose(angles(found), torch.eye(5, dtype=torch.float64), atol=1e-6)
    exact, _ = np.linalg.qr(columns.double().numpy().T)
    projection = found.double().numpy().T @ found.double().numpy()
    assert np.abs(projection - exact @ exact.T).max() < 1e-6


def test_nearly_parallel_columns_become_orthogonal(seed):
    columns = drawn(seed, 300) + 4e-6 * drawn(seed + 1, 5, 300)
    [found] = orthonormalize([columns])
    assert torch.allclose(angles(found), torch.eye(5, dtype=torch.float64), atol=1e-6)


def test_zero_and_dependent_columns_become_zero(seed):
    columns = drawn(seed, 6, 50)
    columns[0] = 0
    columns[3] = 2 * columns[1] - columns[2]
    [found] = orthonormalize([columns])
    assert torch.allclose(angles(found).diagonal(), torch.tensor([0, 1, 1, 0, 1, 1.0], dtype=torch.float64), atol=1e-6)
    assert not found[0].any() and not found[3].any()


def test_zero_and_dependent_columns_are_replaced(seed):
    columns, asked = drawn(seed, 4, 50), []
    columns[0] = 0
    columns[2] = -columns[1]

    def fresh(matrix, column):
        asked.append((matrix, column))
        return drawn(seed + 1 + column, 50)

    untouched, found = orthonormalize([drawn(seed + 9, 3, 50), columns], fresh)
    assert asked == [(1, 0), (1, 2)]
    assert torch.allclose(angles(found), torch.eye(4, dtype=torch.float64), atol=1e-6)
    assert torch.allclose(angles(untouched), torch.eye(3, dtype=torch.float64), atol=1e-6)


def test_all_magnitudes_of_float32(seed):
    """The squares of these values are outside the range of float32."""
    for scale in (1e-35, 1e30):
        assert torch.allclose(angles(orthonormalize([drawn(seed, 2, 20) * scale])[0]), torch.eye(2).double(), atol=1e-6)


@pytest.mark.parametrize("spread", [1.0, 1e-3, 4e-6])
def test_both_ways_agree(spread, seed):
    """Cholesky's way takes independent columns, and is that of the Gram-Schmidt process up to rounding."""
    columns = (drawn(seed, 300) + spread * drawn(seed + 1, 6, 300)).double()
    [found], independent = orthonormal._cholesky_qr(columns[None])
    assert independent and torch.allclose(found, orthonormal._gram_schmidt(columns, None), atol=1e-8)
    for dependent in (torch.zeros(300), columns[0] + columns[3], columns[2] * (1 + 1e-8)):
        other = torch.cat([columns[:5], dependent[None]])
        assert orthonormal._cholesky_qr(torch.stack([columns, other]))[1].tolist() == [True, False]


def test_matrices_of_several_shapes_keep_their_order(seed):
    shapes = [(2, 30), (3, 50), (2, 30), (1, 30), (3, 50)]
    matrices = [drawn(seed + i, *shape) for i, shape in enumerate(shapes)]
    matrices[2][1] = 0
    assert orthonormalize([]) == []
    for matrix, found in zip(matrices, orthonormalize(matrices), strict=True):
        assert torch.allclose(found, orthonormal._gram_schmidt(matrix.double(), None).float(), atol=1e-7)
