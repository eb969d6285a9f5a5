"""Sparse compressors with values of few bits: bits and bytes of a plain reference, residuals, decay, saved states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.helpers import sparse_values
from tests.helpers.codec_textbook import word
from tests.helpers.compressor_steps import alike, make, steps, summed, top_mask
from tests.helpers.devices import DEVICE

from bitlane.compress import DGC, MiCRO, TopK
from bitlane.compress.codecs import rice
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.compress.compressor import layout_of_shapes
from bitlane.compress.compressors.micro import MiCROReducer
from bitlane.compress.compressors.quotas import reported_counts
from bitlane.compress.ddp.stats import Stats
from bitlane.compress.ddp.steps import StepRules, StepRunner
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

BITS = [2, 4, 8]
F = np.float32


def gradients(seed, count, ranks, n):
    """Return gradients of layers with different scales, float32 [count, ranks, n]."""
    rng = np.random.default_rng(seed)
    scales = np.repeat(10.0 ** rng.uniform(-3, 0, -(-n // 500)), 500)[:n]
    return (rng.standard_normal((count, ranks, n)) * scales).astype(F)


def sent(vector, mask, bits, seed=None):
    """Return the bytes of a body, and the vector that it means."""
    indices, meant = np.flatnonzero(mask), np.zeros_like(vector)
    codes, meant[mask] = sparse_values.encode(indices, vector[mask], bits, seed)
    chunks = len(set((indices // 4096).tolist()))
    return len(rice.prefix(chunks)) + len(rice.encode(indices, len(vector))) + len(codes), meant


def mask_of(compressor, vector):
    if compressor.chunked:
        return sparse_values.chunk_mask(vector, compressor.density)
    return top_mask(vector, max(1, round(compressor.density * len(vector))))


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize(("chunked", "decay"), [(False, 1.0), (True, 1.0), (True, 0.95), (False, 0.3)])
@pytest.mark.parametrize(("n", "ranks"), [(9000, 2), (4096, 1), (3, 3)])
def test_topk_has_the_bits_and_bytes_of_the_textbook(bits, chunked, decay, n, ranks, seed):
    inputs, compressor = gradients(seed, 4, ranks, n), TopK(0.01, value_bits=bits, chunked=chunked, decay=decay)
    found, residual, total = steps(compressor, inputs), np.zeros((ranks, n), F), np.zeros(ranks, int)
    for step, vectors in enumerate(inputs):
        held = residual + vectors
        lengths, meant = zip(*(sent(each, mask_of(compressor, each), bits) for each in held), strict=True)
        assert found.averages[step, 0].tobytes() == summed(np.array(meant)).tobytes()
        residual = (held - np.array(meant)) * F(decay)
        assert found.kept[step].tobytes() == residual.tobytes()
        total += (ranks - 1) * (8 + np.array(lengths))
    assert alike(found.averages) and found.sent == total.tolist()


@pytest.mark.parametrize("bits", BITS)
def test_without_feedback_rounding_is_drawn(bits, seed):
    inputs, compressor = gradients(seed, 2, 2, 5000), TopK(0.02, False, value_bits=bits, seed=seed % 1000)
    found = steps(compressor, inputs)
    for step, vectors in enumerate(inputs):
        meant = []
        for rank, vector in enumerate(vectors):
            drawn = 0
            for key in (seed % 1000, step, rank):
                drawn = word((drawn * 0x9E3779B9 + key + 1) % 2**32, 0)
            meant.append(sent(vector, mask_of(compressor, vector), bits, drawn)[1])
        assert found.averages[step, 0].tobytes() == summed(np.array(meant)).tobytes()


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("chunked", [False, True])
def test_dgc_keeps_what_rounding_lost_in_the_velocity(bits, chunked, seed):
    n, ranks, compressor = 5000, 2, DGC(0.02, 0.9, value_bits=bits, chunked=chunked)
    inputs = gradients(seed, 4, ranks, n)
    found, (u, v) = steps(compressor, inputs), np.zeros((2, ranks, n), F)
    for step, vectors in enumerate(inputs):
        u = u * F(0.9) + vectors
        v = v + u
        masks = np.array([mask_of(compressor, each) for each in v])
        meant = np.array([sent(each, mask, bits)[1] for each, mask in zip(v, masks, strict=True)])
        assert found.averages[step, 0].tobytes() == summed(meant).tobytes()
        u, v = np.where(masks, F(0), u), v - meant
    for rank, state in enumerate(found.states):
        assert np.array_equal(state["velocity"].numpy(), v[rank])
        assert np.array_equal(state["momentum"].numpy(), u[rank])


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize(("ranks", "decay"), [(1, 1.0), (3, 1.0), (2, 0.9)])
def test_micro_has_the_bits_and_bytes_of_the_textbook(bits, ranks, decay, seed, monkeypatch):
    n, gather, selected = 9001, MiCROReducer._gather_indices, {}

    def record(reducer, accumulated, step):
        found = gather(reducer, accumulated, step)
        selected[step] = [each.cpu().numpy() for each in found]
        return found

    monkeypatch.setattr(MiCROReducer, "_gather_indices", record)
    inputs = gradients(seed, 4, ranks, n)
    found, residual = steps(MiCRO(0.02, value_bits=bits, decay=decay), inputs), np.zeros((ranks, n), F)
    total = np.zeros(ranks, int)
    for step, vectors in enumerate(inputs):
        held, average = residual + vectors, np.zeros(n, F)
        for owner, indices in enumerate(selected[step]):
            pairs = [sparse_values.encode(indices, each[indices], bits) for each in held]
            mean = summed(np.array([meant for _, meant in pairs]))
            codes, average[indices] = sparse_values.encode(indices, mean, bits)
            for rank, (own, meant) in enumerate(pairs):
                held[rank, indices] -= meant
                total[rank] += len(own) * (rank != owner)
            held[owner, indices] += F(ranks) * (mean - average[indices])
            begin, end = (n * ((owner + step) % ranks + more) // ranks for more in (0, 1))
            index_bytes = len(rice.encode(indices - begin, end - begin))
            total[owner] += (ranks - 1) * (4 + 4 * len(reported_counts(180)) + 8 + index_bytes + len(codes))
        assert found.averages[step, 0].tobytes() == average.tobytes()
        residual = held * F(decay)
        assert found.kept[step] == pytest.approx(residual, rel=1e-6, abs=1e-7)  # n * error may be fused
    assert alike(found.averages) and found.sent == total.tolist()


COMPRESSORS = [
    TopK(0.02, value_bits=2, chunked=True, decay=0.9),
    TopK(0.02, residual_dtype="bfloat16", value_bits=4, decay=0.95),
    TopK(0.02, False, value_bits=2, seed=5),
    DGC(0.02, value_bits=4, chunked=True),
    MiCRO(0.02, value_bits=2, residual_dtype="bfloat16"),
    MiCRO(0.02, "published", value_bits=8, decay=0.5),
]


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=repr)
def test_a_restored_state_continues_identically(compressor, seed):
    inputs = gradients(seed, 7, 3, 5000)
    straight, first = steps(compressor, inputs), steps(compressor, inputs[:3])
    second = steps(compressor, inputs[3:], 3, first.states)
    assert straight.averages[3:].tobytes() == second.averages.tobytes()


@pytest.mark.parametrize("compressor", [each for each in COMPRESSORS if each != COMPRESSORS[2]], ids=repr)
def test_debug_accepts_decay_and_rounding_and_nothing_else(compressor, seed, monkeypatch):
    """What is neither sent nor kept is at most what rounding and decay explain."""
    inputs = gradients(seed, 5, 2, 5000)

    def work(transport):
        layout, rules = layout_of_shapes([(3000,), (50, 40)]), StepRules(debug=True)
        runner = StepRunner(compressor, transport, AlphaBetaModel(), layout, DEVICE, Stats(), rules)
        for vector in inputs[:, transport.rank]:
            runner.average(lambda vector=vector: torch.from_numpy(vector.copy()).to(DEVICE))

    run_ranks_in_threads(2, work)
    if isinstance(compressor, DGC):
        return  # it has no residual
    monkeypatch.setattr("bitlane.compress.compressors.memory.StateVectors.rounding", lambda self, name: None)
    if compressor.decay < 1:
        with pytest.raises(Exception, match="is not conserved"):
            run_ranks_in_threads(2, work)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("compressor", COMPRESSORS[:1] + COMPRESSORS[3:5], ids=repr)
def test_values_that_are_not_finite_are_refused_on_all_ranks(compressor, bad):
    def work(transport):
        runner = StepRunner(compressor, transport, AlphaBetaModel(), layout_of_shapes([(50,)]), DEVICE, Stats())
        vector = torch.ones(50, device=DEVICE)
        vector[7] = bad if transport.rank else 1.0
        with pytest.raises(DataError, match="the gradient of rank 1 has NaN or infinite values"):
            runner.average(lambda: vector)

    run_ranks_in_threads(2, work)


@pytest.mark.parametrize("compressor", [replace(each, density=1.0) for each in COMPRESSORS], ids=repr)
@pytest.mark.parametrize(("n", "ranks"), [(1, 1), (1, 3), (4097, 2)])
def test_zeros_single_values_and_ties(compressor, n, ranks, seed):
    inputs = np.random.default_rng(seed).integers(-1, 2, (4, ranks, n)).astype(F)
    inputs[1] = 0
    assert alike(steps(compressor, inputs).averages)


def test_states_of_other_lengths_are_refused():
    def work(transport):
        make(COMPRESSORS[0], 50, transport).load_state_dict({"residual": torch.zeros(49)})

    with pytest.raises(DataError, match="residual of the saved state has shape"):
        run_ranks_in_threads(1, work)
