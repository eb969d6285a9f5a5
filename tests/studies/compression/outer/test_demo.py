"""DeMo against a textbook in numpy: the transform, the components that are sent, and the steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.fft import dctn, idctn

from bitlane_studies.compression.outer.demo import BETA, Chunks, DeMo, chunk_side
from bitlane_studies.compression.stock import single_process_group

pytestmark = pytest.mark.torch

SHAPES = [(96, 32), (256, 64), (7,), (130,), (3, 5), (128, 96), (6, 4, 5)]


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 96, 128, 130, 256, 4099])
def test_a_chunk_divides_the_side(length):
    side = chunk_side(length)
    assert length % side == 0 and side <= 64
    assert not any(length % larger == 0 for larger in range(side + 1, 65) if larger <= length)


def textbook(values: np.ndarray) -> np.ndarray:
    """Return the components of each chunk, row by row of chunks, in float64."""
    matrix = values.reshape(1, -1) if values.ndim == 1 else values.reshape(len(values), -1)
    a, b = (chunk_side(side) for side in matrix.shape)
    return np.stack(
        [
            dctn(matrix[i : i + a, j : j + b], norm="ortho").ravel()
            for i in range(0, matrix.shape[0], a)
            for j in range(0, matrix.shape[1], b)
        ]
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_components_are_cosines_of_chunks(shape, seed):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    chunks = Chunks(values.shape)
    components = chunks.transformed(values)
    expected = textbook(values.double().numpy())
    assert components.shape == expected.shape and components.shape[1] == chunks.size
    np.testing.assert_allclose(components.numpy(), expected, atol=2e-5)
    torch.testing.assert_close(chunks.restored(components), values, atol=2e-5, rtol=0)


def test_steps_of_one_rank(seed):
    """Against momentum, the largest components, and signs, in numpy; each step from the momentum that is there.

    A component beside the middle of two bfloat16 values may become the other one: it moves an update by less than 0.01.
    """
    rng = np.random.default_rng(seed)
    gradients = rng.normal(size=(4, 8, 16)).astype(np.float32)
    weight = torch.nn.Parameter(torch.ones(8, 16))
    expected, momentum = np.ones((8, 16)), np.zeros((8, 16))
    with single_process_group():
        optimizer = DeMo([weight], 0.01, 1 / 16, weight_decay=0.1)
        for gradient in gradients:
            weight.grad = torch.from_numpy(gradient)
            optimizer.step()
            momentum = BETA * momentum + gradient
            components = dctn(momentum, norm="ortho")
            largest = np.argsort(-np.abs(components), axis=None)[:8]
            sent = np.zeros(128)
            sent[largest] = torch.from_numpy(components.ravel()[largest]).float().bfloat16().float().numpy()
            update = idctn(sent.reshape(8, 16), norm="ortho")
            kept = optimizer.state[weight]["momentum"].double().numpy()
            np.testing.assert_allclose(kept, momentum - update, atol=0.01)
            expected = expected * (1 - 0.001) - 0.01 * np.sign(update)
            near = np.abs(update) < 0.01
            assert near.mean() < 0.2
            np.testing.assert_allclose(weight.detach().numpy()[~near], expected[~near], atol=1e-5)
            expected[near], momentum = weight.detach().numpy()[near], kept
    assert optimizer.declared_bytes == 0  # no other rank
