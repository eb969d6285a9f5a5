"""Shares of segments: exact counts in every step, the shares of a common threshold in the long run, kept in states."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.helpers.compressor_steps import summed, top_mask
from tests.helpers.devices import DEVICE

from bitlane.compress import DGC, MiCRO, TopK
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.compress.compressor import layout_of_shapes
from bitlane.compress.compressors.shares import Share
from bitlane.compress.segments import Segmented

pytestmark = pytest.mark.torch

LENGTHS = (3000, 500, 1500)
SCALES = (1.0, 6.0, 2.0)  # so that the second segment has more than its length of the largest values
COUNT, K = sum(LENGTHS), 200
ENDS = np.cumsum(LENGTHS)
PARTS = [slice(end - length, end) for end, length in zip(ENDS, LENGTHS, strict=True)]
DENSITY = K / COUNT


def gradients(seed, steps, ranks):
    """Return gradients whose segments have different scales, float32 [steps, ranks, n]."""
    scales = np.repeat(np.array(SCALES, np.float32), LENGTHS)
    return np.random.default_rng(seed).standard_normal((steps, ranks, COUNT)).astype(np.float32) * scales


def run(compressor, inputs, states=None, begin=0):
    """Average in segments. Return the averages [steps, ranks, n], and the states of all steps [rank][step]."""

    def work(transport):
        layout = layout_of_shapes([(length,) for length in LENGTHS])
        reducer = Segmented(compressor, 400).reducer(layout, Link(transport, ""), AlphaBetaModel(), DEVICE)
        if states is not None:
            reducer.load_state_dict(states[transport.rank])
        averages, found = [], []
        for step, vector in enumerate(inputs[:, transport.rank], start=begin):
            average = torch.from_numpy(vector.copy()).to(DEVICE)
            reducer.average(average, step)
            averages.append(average.cpu().numpy())
            found.append(reducer.state_dict())
        return np.array(averages), found

    averages, found = zip(*run_ranks_in_threads(inputs.shape[1], work), strict=True)
    return np.stack(averages, 1), list(found)


def test_adjoining_shares_have_all_values(seed):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        ends = np.sort(rng.random(rng.integers(0, 9)))
        whole, density = int(rng.integers(1, 10**7)), float(rng.random())
        shares = [Share(whole, begin, end) for begin, end in zip([0.0, *ends], [*ends, 1.0], strict=True)]
        counts = [each.counts(density) for each in shares]
        assert {k for k, _ in counts} == {max(1, round(density * whole))}
        assert sum(own for _, own in counts) == counts[0][0] and all(own >= 0 for _, own in counts)


def test_the_largest_of_each_share_are_sent(seed):
    """Against dense masks, with the shares that a state tells: k values of each rank in every step, the same bits."""
    inputs = gradients(seed, 8, 3)
    averages, states = run(TopK(DENSITY), inputs)
    residual = np.zeros((3, COUNT), np.float32)
    for step, vectors in enumerate(inputs):
        held = residual + vectors
        masks = np.zeros((3, COUNT), bool)
        for rank in range(3):
            shares = states[rank][step - 1]["shares"] if step else [length / COUNT for length in LENGTHS]
            ends = np.rint(np.cumsum(shares) * K).astype(int)
            for part, own in zip(PARTS, np.diff(ends, prepend=0), strict=True):
                masks[rank, part] = top_mask(held[rank, part], own)
        assert (masks.sum(axis=1) == K).all()
        assert np.array_equal(averages[step, 0], summed(np.where(masks, held, np.float32(0))))
        residual = np.where(masks, np.float32(0), held)


def test_shares_follow_a_common_threshold(seed):
    """Against exact counts of the k largest values, as a mean that a step moves by a tenth; without error feedback.

    A share at most doubles in the tail that a step sees, so that it grows by a tenth in a step at first.
    """
    inputs = gradients(seed, 90, 1)
    _, states = run(TopK(DENSITY, error_feedback=False), inputs)
    shares = np.array([state["shares"] for state in states[0]])
    expected = np.array(LENGTHS) / COUNT
    for vector, found in zip(inputs[:, 0], shares, strict=True):
        mask = top_mask(vector, K)
        expected += 0.1 * (np.array([mask[part].sum() for part in PARTS]) / K - expected)
        assert found.sum() == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(shares[-1], expected, atol=0.02)
    assert expected[1] > 0.7 and shares[8, 1] < 0.4


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_of_micro_have_the_same_shares(seed, ranks):
    """They add up to k in every step, and lie where the values of all ranks are."""
    averages, states = run(MiCRO(DENSITY), gradients(seed, 40, ranks))
    assert (np.count_nonzero(averages, axis=2) == K).all()
    for of_ranks in zip(*states, strict=True):
        assert all(state["shares"] == of_ranks[0]["shares"] for state in of_ranks)
    assert states[0][-1]["shares"][1] > 0.3 > LENGTHS[1] / COUNT


@pytest.mark.parametrize("compressor", [TopK(DENSITY), DGC(DENSITY, warmup=2), MiCRO(DENSITY)], ids=repr)
def test_a_restored_state_continues_identically(compressor, seed):
    inputs = gradients(seed, 9, 2)
    straight, _ = run(compressor, inputs)
    first, states = run(compressor, inputs[:4])
    rest, _ = run(compressor, inputs[4:], [each[-1] for each in states], begin=4)
    assert np.array_equal(straight, np.concatenate([first, rest]))
    without = [{name: value for name, value in each[-1].items() if name != "shares"} for each in states]
    other, _ = run(compressor, inputs[4:], without, begin=4)  # of an earlier version: shares begin anew
    assert not np.array_equal(rest, other)


def test_zeros_change_no_share():
    averages, states = run(TopK(DENSITY), np.zeros((2, 2, COUNT), np.float32))
    assert not averages.any()
    assert states[0][1]["shares"] == pytest.approx([length / COUNT for length in LENGTHS])
