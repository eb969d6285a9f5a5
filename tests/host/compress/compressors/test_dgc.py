"""DGC against its equations with dense masks, bit by bit; velocities are sent or accumulate."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.helpers.compressor_steps import alike, integers, make, on_cpu, steps, summed, top_mask

from bitlane.compress import DGC
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.errors import DataError

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_equations_give_the_same_bits(seed, ranks, momentum):
    n, wanted = 600, 24
    inputs = np.random.default_rng(seed).standard_normal((8, ranks, n)).astype(np.float32)
    found = steps(DGC(wanted / n, momentum), inputs)
    u, v = np.zeros((2, ranks, n), np.float32)
    for step, gradients in enumerate(inputs):
        u = u * np.float32(momentum) + gradients
        v = v + u
        masks = np.array([top_mask(each, wanted) for each in v])
        assert np.array_equal(found.averages[step, 0], summed(np.where(masks, v, np.float32(0))))
        u, v = (np.where(masks, np.float32(0), each) for each in (u, v))
    assert alike(found.averages)
    for rank, state in enumerate(found.states):
        assert np.array_equal(state["velocity"].numpy(), v[rank])
        assert np.array_equal(state["momentum"].numpy(), u[rank])


def test_velocities_are_sent_or_accumulate(seed):
    """Exact, because float32 represents all sums with momentum 1/2 and few steps."""
    n, ranks = 300, 2
    inputs = 64 * integers(seed, 6, ranks, n, most=20)
    u, came_in = np.zeros((ranks, n)), np.zeros(n)
    states, sent = None, np.zeros(n)
    for step in range(6):
        u = u / 2 + inputs[step]
        came_in += u.sum(axis=0)
        found = steps(DGC(0.05, 0.5), inputs[step : step + 1], step, states)
        states = found.states
        sent += ranks * found.averages[0, 0].astype(np.float64)
        waits = sum(state["velocity"].numpy().astype(np.float64) for state in states)
        assert np.array_equal(came_in, sent + waits)
        u = np.array([state["momentum"].numpy() for state in states], np.float64)


@pytest.mark.parametrize("ranks", [1, 4])
def test_clipping(seed, ranks):
    """A long gradient is scaled to the norm clip / sqrt(ranks); a short one does not change."""
    rng = np.random.default_rng(seed)
    long = rng.standard_normal((1, ranks, 50)).astype(np.float32) * 100
    found = steps(DGC(1.0, 0.0, clip=1.0), long).averages[0, 0].astype(np.float64)
    norms = np.linalg.norm(long[0].astype(np.float64), axis=1)
    expected = (long[0] / norms[:, None] / np.sqrt(ranks)).mean(axis=0)
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-7)
    short = long / (2 * norms.max() * np.sqrt(ranks))
    short = short.astype(np.float32)
    assert np.array_equal(steps(DGC(1.0, 0.0, clip=1.0), short).averages[0, 0], summed(short[0]))


def test_warm_up(seed):
    compressor = DGC(0.001, warmup=10)
    densities = [compressor.density_at(step) for step in (0, 9, 10, 20, 30, 39, 40, 10**9)]
    assert densities == [0.25, 0.25, 1 / 16, 1 / 64, 1 / 256, 1 / 256, 0.001, 0.001]
    assert DGC(0.5, warmup=10).density_at(0) == 0.5
    assert DGC(0.001).density_at(0) == 0.001
    inputs = np.random.default_rng(seed).standard_normal((3, 1, 1000)).astype(np.float32)
    found = steps(DGC(0.01, warmup=1), inputs)
    assert np.count_nonzero(found.averages[:, 0], axis=1).tolist() == [250, 62, 16]


def test_a_restored_state_continues_identically(seed):
    inputs = np.random.default_rng(seed).standard_normal((9, 2, 400)).astype(np.float32)
    compressor = DGC(0.02, 0.7, clip=1.0, warmup=2)
    straight = steps(compressor, inputs)
    first = steps(compressor, inputs[:5])
    second = steps(compressor, inputs[5:], 5, first.states)
    assert straight.averages[5:].tobytes() == second.averages.tobytes()


def test_another_number_of_ranks_gets_the_mean(seed):
    """Exact, because float32 represents all sums with momentum 1/2 and few steps."""
    states = steps(DGC(0.02, 0.5), 64 * integers(seed, 4, 4, 200)).states

    def work(transport):
        reducer = make(DGC(0.02), 200, transport)
        reducer.reshard(states, None)
        return on_cpu(reducer.state_dict())

    for found in run_ranks_in_threads(2, work):
        for name in ("momentum", "velocity"):
            mean = np.mean([state[name].numpy().astype(np.float64) for state in states], axis=0)
            assert np.array_equal(found[name].numpy(), mean)


def test_an_incomplete_state_is_rejected():
    def work(transport):
        make(DGC(), 50, transport).load_state_dict({"momentum": torch.zeros(50), "velocity": torch.zeros(49)})

    with pytest.raises(
        DataError, match=r"velocity of the saved state has shape \(49,\); this compressor needs \(50,\)"
    ):
        run_ranks_in_threads(1, work)


@pytest.mark.parametrize(
    ("name", "value"), [("density", 0), ("momentum", 1.0), ("momentum", -0.1), ("clip", 0.0), ("warmup", -1)]
)
def test_invalid_settings(name, value):
    with pytest.raises(DataError, match=f"{name}.* must be "):
        DGC(**{name: value})
