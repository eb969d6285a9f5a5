"""Top-k against dense masks: averages, residuals and bytes of every step."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.compressor_steps import alike, integers, make, steps, summed, top_mask

from bitlane.compress import TopK
from bitlane.compress.codecs import sparse
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.errors import DataError

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("feedback", [True, False])
def test_dense_masks_give_the_same_bits(seed, ranks, feedback):
    n, wanted = 700, 35
    inputs = np.random.default_rng(seed).standard_normal((6, ranks, n)).astype(np.float32)
    found = steps(TopK(wanted / n, feedback), inputs)
    residual = np.zeros((ranks, n), np.float32)
    for step, gradients in enumerate(inputs):
        held = residual + gradients if feedback else gradients
        masks = np.array([top_mask(each, wanted) for each in held])
        assert (masks.sum(axis=1) == wanted).all()
        assert np.array_equal(found.averages[step, 0], summed(np.where(masks, held, np.float32(0))))
        residual = np.where(masks, np.float32(0), held)  # exactly 0 where it went out, exactly v elsewhere
        assert not feedback or np.array_equal(found.kept[step], residual)
    assert alike(found.averages)
    assert np.isnan(found.kept).all() != feedback


@pytest.mark.parametrize("ranks", [2, 4])
def test_residuals_are_exact(seed, ranks):
    """Exact, because float32 represents all sums of integers."""
    inputs = integers(seed, 20, ranks, 500)
    found = steps(TopK(0.03), inputs)
    before = np.zeros(500)
    for step in range(20):
        after = found.kept[step].sum(axis=0, dtype=np.float64)
        came_in = inputs[step].sum(axis=0, dtype=np.float64) + before
        assert np.array_equal(came_in, ranks * found.averages[step, 0].astype(np.float64) + after)
        before = after


def test_bytes_are_those_of_the_payloads(seed):
    inputs = np.random.default_rng(seed).standard_normal((1, 3, 5000)).astype(np.float32)
    found = steps(TopK(0.01), inputs)
    for rank in range(3):
        mask = top_mask(inputs[0, rank], 50)
        body = sparse.encode(np.flatnonzero(mask), inputs[0, rank][mask], 5000)
        assert found.sent[rank] == 2 * (8 + len(body))


def test_a_restored_state_continues_identically(seed):
    inputs = np.random.default_rng(seed).standard_normal((9, 3, 400)).astype(np.float32)
    straight = steps(TopK(0.02), inputs)
    first = steps(TopK(0.02), inputs[:4])
    second = steps(TopK(0.02), inputs[4:], 4, first.states)
    assert straight.averages[4:].tobytes() == second.averages.tobytes()


def test_redistribution_from_four_to_three_ranks(seed):
    """The mean of the residuals over ranks is conserved."""
    kept = steps(TopK(0.02), integers(seed, 5, 4, 300)).kept[-1]
    mean = (kept.sum(axis=0) / 4).astype(np.float32)

    def work(transport):
        import torch

        reducer = make(TopK(0.02), 300, transport)
        reducer.reshard([], torch.from_numpy(mean))
        return reducer.residual().cpu().numpy()

    assert all(np.array_equal(each, mean) for each in run_ranks_in_threads(3, work))


@pytest.mark.parametrize(("n", "density"), [(1, 0.01), (1, 1.0), (3, 0.01), (100, 1.0)])
def test_small_vectors(seed, n, density):
    inputs = integers(seed, 3, 3, n)
    found = steps(TopK(density), inputs)
    assert alike(found.averages)
    if density == 1:
        assert np.array_equal(found.averages[0, 0], summed(inputs[0]))


def test_zeros_are_not_sent():
    found = steps(TopK(0.5), np.zeros((3, 2, 100), np.float32))
    assert not found.averages.any()
    assert found.sent == [3 * (8 + 1)] * 2


@pytest.mark.parametrize("density", [0, -0.1, 1.01, float("nan")])
def test_invalid_densities(density):
    with pytest.raises(DataError, match="density"):
        TopK(density)
