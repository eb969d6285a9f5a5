"""Saved states: resumed to the bit, and taken to another number of ranks without losing what was kept back."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch

from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.compress.compressor import ParameterSpan
from bitlane.compress.ddp.states import check_identity, identity, redistribute
from bitlane.compress.ddp.stats import Stats
from bitlane.compress.ddp.steps import StepRunner
from bitlane.compress.registry import EXAMPLES, parse_compressor
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

LAYOUT = [ParameterSpan(0, (60,)), ParameterSpan(60, (40, 36))]
N = 1500
TIMED = {"qsgd:bits=mqgrad"}  # goes by how long steps take, which is never the same twice


def steps_of(transport, compressor):
    return StepRunner(compressor, transport, AlphaBetaModel(), LAYOUT, torch.device("cpu"), Stats(), "raise", True)


def gradient(seed, rank, step):
    return torch.from_numpy(np.random.default_rng([seed, rank, step]).standard_normal(N).astype(np.float32))


def run(transport, compressor, seed, steps, state=None):
    """Averages of some steps, and the state after them."""
    rank = steps_of(transport, compressor)
    if state is not None:
        rank.load_state_dict(state)
    averages = [rank.average(lambda step=step: gradient(seed, transport.rank, step), 1.0).clone() for step in steps]
    return averages, rank.state_dict()


def saved(state):
    """A state as a file gives it back."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("text", sorted(set(EXAMPLES) - TIMED))
def test_a_new_object_goes_on_to_the_bit(text, seed):
    compressor = parse_compressor(text.replace("rank=32", "rank=2"))

    def work(transport):
        whole, _ = run(transport, compressor, seed, range(6))
        _, state = run(transport, compressor, seed, range(3))
        rest, _ = run(transport, compressor, seed, range(3, 6), saved(state))
        return all(torch.equal(a, b) for a, b in zip(whole[3:], rest, strict=True))

    assert run_ranks_in_threads(3, work) == [True] * 3


def test_the_state_of_a_policy_passes_through_a_file():
    def work(transport):
        _, state = run(transport, parse_compressor("qsgd:bits=mqgrad"), 0, range(12))
        _, again = run(transport, parse_compressor("qsgd:bits=mqgrad"), 0, range(12, 13), saved(state))
        return state, saved(state), again

    state, back, again = run_ranks_in_threads(1, work)[0]
    assert again["step"] == 13
    assert set(state["policy"]) == set(back["policy"]) and state["policy"]
    for name, value in state["policy"].items():
        assert np.array_equal(np.asarray(value), np.asarray(back["policy"][name]), equal_nan=True)


@pytest.mark.parametrize(
    "text", ["qsgd:bits=2,error_feedback=True", "efsign", "topk:density=0.05", "micro:density=0.05"]
)
@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 5), (4, 1), (1, 3)])
def test_another_number_of_ranks_loses_nothing(text, before, after, seed):
    """What is still to be applied to the average, the mean of what ranks keep, is the same, and the run goes on."""
    compressor = parse_compressor(text)
    states = run_ranks_in_threads(before, lambda transport: run(transport, compressor, seed, range(4))[1])
    owed = np.mean([kept_of(compressor, state, before).numpy() for state in states], axis=0, dtype=np.float64)
    moved = redistribute(compressor, list(reversed(states)), after)
    for state in moved:
        assert state["step"] == 4
        kept = kept_of(compressor, state, after).numpy()
        np.testing.assert_allclose(kept, owed, rtol=1e-6, atol=1e-7 * np.abs(owed).max())
    assert np.abs(owed).max() > 0.01

    def go_on(transport):
        return run(transport, compressor, seed, range(4, 6), moved[transport.rank])[0]

    found = run_ranks_in_threads(after, go_on)
    assert all(torch.equal(found[0][step], each[step]) for each in found for step in range(2))


def kept_of(compressor, state, ranks):
    """What a rank keeps back, asked of a reducer that was given its state."""

    def work(transport):
        if transport.rank != state["rank"]:
            return None
        steps = steps_of(transport, compressor)
        steps._prepare()
        steps.load_state_dict(state)
        return steps._reducer.residual()

    return run_ranks_in_threads(ranks, work)[state["rank"]]


def test_states_that_do_not_belong_together_are_refused(seed):
    compressor = parse_compressor("efsign")
    states = run_ranks_in_threads(3, lambda transport: run(transport, compressor, seed, range(2))[1])
    with pytest.raises(DataError, match="no states"):
        redistribute(compressor, [], 2)
    with pytest.raises(DataError, match=r"3 ranks saved states, and these are of ranks \[0, 2\]"):
        redistribute(compressor, [states[2], states[0]], 2)
    with pytest.raises(DataError, match="different step: 2 and 7"):
        redistribute(compressor, [*states[:2], {**states[2], "step": 7}], 2)
    with pytest.raises(DataError, match=r"compressor of the saved state is EFSign\(.*, and QSGD"):
        redistribute(parse_compressor("qsgd:bits=4"), states, 2)
    with pytest.raises(DataError, match="ranks=0"):
        redistribute(compressor, states, 0)
    with pytest.raises(DataError, match="no state of a DDPCompression: it lacks"):
        redistribute(compressor, [{"model": 1}], 2)


def test_whose_a_state_is():
    own = identity(parse_compressor("efsign"), 1, 4)
    complete = {**own, "step": 0, "shapes": [], "reducer": {}, "policy": {}}
    check_identity(complete, own)
    with pytest.raises(DataError, match="ranks of the saved state is 2, and 4 is needed; redistribute makes states"):
        check_identity({**complete, "ranks": 2}, own)
    with pytest.raises(DataError, match="rank of the saved state is 0, and 1 is needed"):
        check_identity({**complete, "rank": 0}, own)
    with pytest.raises(DataError, match="it lacks policy, step"):
        check_identity({name: value for name, value in complete.items() if name not in ("step", "policy")}, own)
