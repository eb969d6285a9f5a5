"""Residuals in bfloat16: each compressor's steps equal those with float32 residuals that are rounded between steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.helpers.compressor_steps import alike, steps

from bitlane.compress import QSGD, EFSign, MiCRO, TopK
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.residuals import BLOCK, add_residual, rounding_bound
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.compress.compressor import layout_of_shapes
from bitlane.compress.ddp.checks import average_with_checks
from bitlane.compress.memory import state_bytes
from bitlane.errors import BitlaneError

pytestmark = pytest.mark.torch

COMPRESSORS = [QSGD(3, error_feedback=True), EFSign(), TopK(0.05), MiCRO(0.05)]
LAYOUT = layout_of_shapes([[1200], [20, 14], [1], [1]])
N = 1482


def rounded(values):
    """Round float32 to the nearest bfloat16, ties to even, by its bits."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    bits += 0x7FFF + (bits >> 16 & 1)
    return (bits >> 16 << 16).astype(np.uint32).view(np.float32)


def halved(compressor):
    return replace(compressor, residual_dtype="bfloat16")


def gradients(seed, count, ranks, n=N):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((count, ranks, n)) * 10.0 ** rng.integers(-6, 3, n)).astype(np.float32)


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=repr)
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_steps_are_those_of_rounded_residuals(compressor, ranks, seed):
    inputs = gradients(seed, 5, ranks)
    found, states = steps(halved(compressor), inputs), None
    for step in range(5):
        wanted = steps(compressor, inputs[step : step + 1], step, states)
        assert found.averages[step].tobytes() == wanted.averages[0].tobytes()
        states = [
            {k: torch.from_numpy(rounded(v.numpy())) if torch.is_tensor(v) else v for k, v in state.items()}
            for state in wanted.states
        ]
    assert alike(found.averages)
    for state, wanted in zip(found.states, states, strict=True):
        assert state["residual"].dtype == torch.bfloat16
        assert all(torch.equal(state[name].float(), each) for name, each in wanted.items() if torch.is_tensor(each))


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=repr)
def test_the_residuals_take_half(compressor):
    def work(transport):
        link, device = Link(transport, ""), torch.device("cpu")
        reducers = [each.reducer(LAYOUT, link, AlphaBetaModel(), device) for each in (compressor, halved(compressor))]
        return [state_bytes(reducer) for reducer in reducers]

    full, half = run_ranks_in_threads(1, work)[0]
    residuals = 8 * N if isinstance(compressor, QSGD | EFSign) else 4 * N  # of the rank, and of what it owns
    assert full - half == residuals // 2


def checked(compressor, inputs, lose, bound=True):
    """Return the error of steps with checks; `lose` changes the residual of a reducer after each step."""

    class Losing:
        def __init__(self, inner):
            self.inner = inner

        def average(self, vector, step):
            self.inner.average(vector, step)
            lose(self.inner)

        def residual(self):
            return self.inner.residual()

        def residual_rounding(self):
            return self.inner.residual_rounding() if bound else None

    def work(transport):
        link = Link(transport, "")
        reducer = Losing(compressor.reducer(LAYOUT, link, AlphaBetaModel(), torch.device("cpu")))
        try:
            for step, vector in enumerate(inputs[:, transport.rank]):
                average_with_checks(reducer, torch.from_numpy(vector.copy()), step, link, LAYOUT)
        except BitlaneError as error:
            return str(error)
        return ""

    found = run_ranks_in_threads(inputs.shape[1], work)
    assert len(set(found)) == 1
    return found[0]


def stored(reducer):
    return reducer.averaging.residual if hasattr(reducer, "averaging") else reducer.memory.tensors["residual"]


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=repr)
def test_debug_allows_for_the_rounding_and_for_no_more(compressor, seed):
    inputs = gradients(seed, 6, 3)
    assert checked(halved(compressor), inputs, lambda reducer: None) == ""
    assert "is not conserved" in checked(halved(compressor), inputs, lambda reducer: None, bound=False)
    assert "is not conserved" in checked(halved(compressor), inputs, lambda reducer: stored(reducer).mul_(1 + 2**-6))


def test_residuals_that_cancel_are_allowed_for(seed):
    """The residual of a rank and that of the average it owns may cancel; the rounding of both is still allowed for."""
    compressor = EFSign("bfloat16")

    def work(transport):
        reducer = compressor.reducer(LAYOUT, Link(transport, ""), AlphaBetaModel(), torch.device("cpu"))
        averaging = reducer.averaging
        averaging.residual.fill_(3.0)
        averaging.owned_residual.fill_(-1.5)
        own = averaging.shards[transport.rank]
        return reducer.residual()[own.begin : own.end], reducer.residual_rounding()[own.begin : own.end]

    for combined, bound in run_ranks_in_threads(2, work):
        assert not combined.any() and (bound == 6 * 2**-8).all()


def test_the_bound_is_that_of_rounding_to_nearest(seed):
    rng = np.random.default_rng(seed)
    values = (rng.standard_normal(20_000) * 10.0 ** rng.integers(-44, 38, 20_000)).astype(np.float32)
    values[:2] = np.float32(1 + 2**-8), np.float32(0)  # between two numbers of bfloat16
    tensor = torch.from_numpy(values).bfloat16()
    assert np.array_equal(tensor.float().numpy(), rounded(values))
    error, bound = np.abs(tensor.double().numpy() - values), rounding_bound(tensor).double().numpy()
    assert (error <= bound).all()
    assert error[0] == bound[0] == 2**-8


@pytest.mark.parametrize("n", [0, 1, BLOCK, 2 * BLOCK + 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_are_those_of_float32(n, dtype, seed):
    rng = np.random.default_rng(seed)
    values, residual = rng.standard_normal((2, n)).astype(np.float32)
    found, stored = torch.from_numpy(values.copy()), torch.from_numpy(residual).to(dtype)
    add_residual(found, stored)
    assert np.array_equal(found.numpy(), values + (residual if dtype == torch.float32 else rounded(residual)))
