"""Averages of codes: identical on all ranks, within the quantization error of float64, residuals tracked exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from bitlane.compress.codecs.groups import Groups
from bitlane.compress.collectives.averaging import Averaging
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.compress.compressors.quantizers import LinearQuantizer, SignQuantizer
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

ALL_GATHER, REDUCE_SCATTER = AlphaBetaModel(latency=1e9, bandwidth=1.0), AlphaBetaModel(latency=0.0, bandwidth=1.0)
COUNT = 3000
RANKS = [1, 2, 3, 4, 8]


def vectors(seed, size, steps=1):
    """Return float32 [steps, ranks, COUNT]: different on each rank, with very different scales per group."""
    rng = np.random.default_rng(seed)
    scales = np.repeat(10.0 ** rng.uniform(-3, 3, COUNT // 100), 100)
    return (rng.standard_normal((steps, size, COUNT)) * scales).astype(np.float32)


def group_maxima(values):
    """Return, for each value, the maximum of its group."""
    groups = Groups.of(COUNT)
    return np.repeat(np.maximum.reduceat(values, groups.starts[:-1]), groups.lengths)


@dataclass(frozen=True)
class AverageResult:
    averages: np.ndarray  # float32 [steps, ranks, COUNT]
    residuals: np.ndarray  # float32 [ranks, COUNT]
    sent: int


def averaged(inputs, quantizer, model, feedback=True, begin=0):
    """Return the averages of all steps on all ranks, the residuals and the bytes sent."""

    def work(transport):
        groups = Groups.of(COUNT)
        averaging = Averaging(groups, Link(transport, ""), model, 7, feedback, torch.device("cpu"))
        found = []
        for step, vector in enumerate(inputs[:, transport.rank], start=begin):
            average = torch.from_numpy(vector.copy())
            averaging.average(average, quantizer, step)
            found.append(average.numpy())
        return np.array(found), averaging.combined_residual().numpy() if feedback else None, transport.sent

    found = run_ranks_in_threads(inputs.shape[1], work)
    averages, residuals, sent = zip(*found, strict=True)
    return AverageResult(np.stack(averages, axis=1), np.array(residuals), sum(sent))


@pytest.mark.parametrize("model", [ALL_GATHER, REDUCE_SCATTER], ids=["gathered", "owners"])
@pytest.mark.parametrize("size", RANKS)
@pytest.mark.parametrize(
    "quantizer",
    [LinearQuantizer(8, True), LinearQuantizer(2, False), SignQuantizer()],
    ids=["random8", "nearest2", "sign"],
)
def test_averages_are_identical_and_residuals_exact(quantizer, size, model, seed):
    inputs = vectors(seed, size, steps=12)
    found = averaged(inputs, quantizer, model)
    assert all(np.array_equal(found.averages[:, 0], found.averages[:, rank]) for rank in range(size))
    came_in = inputs.astype(np.float64).sum(axis=(0, 1))
    applied = size * found.averages[:, 0].astype(np.float64).sum(axis=0)
    kept = found.residuals.astype(np.float64).sum(axis=0)
    size_of_terms = np.abs(inputs).sum(axis=(0, 1)) + np.abs(found.averages).sum(axis=(0, 1))
    assert (np.abs(came_in - applied - kept) <= 1e-6 * group_maxima(size_of_terms)).all()


@pytest.mark.parametrize("model", [ALL_GATHER, REDUCE_SCATTER], ids=["gathered", "owners"])
@pytest.mark.parametrize("size", [2, 3, 8])
def test_eight_bits_are_near_the_mean(size, model, seed):
    inputs = vectors(seed, size)
    found = averaged(inputs, LinearQuantizer(8, False), model)
    mean = inputs[0].astype(np.float64).mean(axis=0)
    largest = group_maxima(np.abs(inputs[0]).max(axis=0))
    assert (
        np.abs(found.averages[0, 0] - mean) <= 1.01 * largest / 127
    ).all()  # half a step at the rank and half a step at the owner


@pytest.mark.parametrize("size", [2, 3, 4, 8])
def test_bytes_of_both_collectives(size, seed):
    quantizer = LinearQuantizer(4, False)
    body = quantizer.body_bytes(Groups.of(COUNT))
    all_gather = averaged(vectors(seed, size), quantizer, ALL_GATHER)
    reduce_scatter = averaged(vectors(seed, size), quantizer, REDUCE_SCATTER)
    assert all_gather.sent == size * (size - 1) * body
    assert reduce_scatter.sent == 2 * (size - 1) * body


def test_stochastic_rounding_is_unbiased(seed):
    inputs = np.repeat(vectors(seed, 2), 400, axis=0)
    found = averaged(inputs, LinearQuantizer(2, True), REDUCE_SCATTER, feedback=False)
    mean = inputs[0].astype(np.float64).mean(axis=0)
    scale = group_maxima(np.abs(inputs[0]).max(axis=0))  # the step of two bits
    error = (found.averages[:, 0].astype(np.float64).mean(axis=0) - mean) / scale
    deviation = 1.0  # of one draw, at most: that of a rank, then that of the owner
    assert (np.abs(error) <= 6 * deviation / np.sqrt(400)).all()
    assert abs((error * np.sign(mean)).mean()) <= 6 * deviation / np.sqrt(400 * COUNT)


def test_a_restored_state_continues_identically(seed):
    inputs = vectors(seed, 3, steps=6)

    def work(transport, split):
        def fresh():
            return Averaging(Groups.of(COUNT), Link(transport, ""), REDUCE_SCATTER, 7, True, torch.device("cpu"))

        averaging, found = fresh(), []
        for step in range(6):
            if split and step == 3:
                state, averaging = averaging.state_dict(), fresh()
                averaging.load_state_dict(state)
            average = torch.from_numpy(inputs[step, transport.rank].copy())
            averaging.average(average, LinearQuantizer(3, True), step)
            found.append(average)
        return torch.stack(found)

    straight = run_ranks_in_threads(3, lambda transport: work(transport, False))
    resumed = run_ranks_in_threads(3, lambda transport: work(transport, True))
    assert all(torch.equal(a, b) for a, b in zip(straight, resumed, strict=True))


def test_a_state_of_another_shape_is_rejected():
    def work(transport):
        def of(count):
            return Averaging(Groups.of(count), Link(transport, ""), REDUCE_SCATTER, 0, True, torch.device("cpu"))

        of(100).load_state_dict(of(99).state_dict())

    with pytest.raises(
        DataError, match=r"residual of the saved state has shape \(99,\); this compressor needs \(100,\)"
    ):
        run_ranks_in_threads(1, work)


@pytest.mark.parametrize("count", [0, 700, 2000, COUNT])
def test_released_values_leave_the_residual(count, seed):
    inputs = vectors(seed, 3)[0]

    def work(transport):
        averaging = Averaging(Groups.of(COUNT), Link(transport, ""), REDUCE_SCATTER, 7, True, torch.device("cpu"))
        averaging.average(torch.from_numpy(inputs[transport.rank].copy()), LinearQuantizer(3, False), 0)
        before = averaging.combined_residual()
        return before, averaging.release(count), averaging.combined_residual()

    for before, released, after in run_ranks_in_threads(3, work):
        assert torch.equal(released, before[:count]) and before.count_nonzero() > COUNT / 2
        assert not after[:count].any() and torch.equal(after[count:], before[count:])
