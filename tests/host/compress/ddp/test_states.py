"""Saved states: bit-identical resumption, and redistribution to another number of ranks without loss."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch

from bitlane.compress import DGC
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.compress.compressor import ParameterSpan, layout_of_shapes
from bitlane.compress.ddp.states import check_identity, identity, redistribute, renamed
from bitlane.compress.ddp.stats import Stats
from bitlane.compress.ddp.steps import StepRules, StepRunner
from bitlane.compress.registry import EXAMPLES, parse_compressor
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

LAYOUT = [ParameterSpan(0, (60,)), ParameterSpan(60, (40, 36))]
N = 1500
TIMED = {"qsgd:bits=mqgrad"}  # depends on measured step times, so two runs differ
RULES = StepRules(debug=True)
IN_BFLOAT16 = (
    *("qsgd:bits=2,error_feedback=True,residual_dtype=bfloat16", "efsign:residual_dtype=bfloat16"),
    *("topk:density=0.05,residual_dtype=bfloat16", "micro:density=0.05,residual_dtype=bfloat16"),
)


def steps_of(transport, compressor):
    return StepRunner(compressor, transport, AlphaBetaModel(), LAYOUT, torch.device("cpu"), Stats(), RULES)


def gradient(seed, rank, step):
    return torch.from_numpy(np.random.default_rng([seed, rank, step]).standard_normal(N).astype(np.float32))


def run(transport, compressor, seed, steps, state=None):
    """Return the averages of some steps, and the state after them."""
    rank = steps_of(transport, compressor)
    if state is not None:
        rank.load_state_dict(state)
    averages = [rank.average(lambda step=step: gradient(seed, transport.rank, step), 1.0).clone() for step in steps]
    return averages, rank.state_dict()


def through_file(state):
    """Return a state after saving and loading it."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("text", sorted({*EXAMPLES, "auto", *IN_BFLOAT16} - TIMED))
def test_resumption_is_bit_identical(text, seed):
    compressor = parse_compressor(text.replace("rank=32", "rank=2"))

    def work(transport):
        whole, _ = run(transport, compressor, seed, range(6))
        _, state = run(transport, compressor, seed, range(3))
        rest, _ = run(transport, compressor, seed, range(3, 6), through_file(state))
        return all(torch.equal(a, b) for a, b in zip(whole[3:], rest, strict=True))

    assert run_ranks_in_threads(3, work) == [True] * 3


def test_the_state_of_a_policy_survives_a_file():
    def work(transport):
        _, state = run(transport, parse_compressor("qsgd:bits=mqgrad"), 0, range(12))
        _, again = run(transport, parse_compressor("qsgd:bits=mqgrad"), 0, range(12, 13), through_file(state))
        return state, through_file(state), again

    state, back, again = run_ranks_in_threads(1, work)[0]
    assert again["step"] == 13
    assert set(state["policy"]) == set(back["policy"]) and state["policy"]
    for name, value in state["policy"].items():
        assert np.array_equal(np.asarray(value), np.asarray(back["policy"][name]), equal_nan=True)


@pytest.mark.parametrize(
    "text", ["qsgd:bits=2,error_feedback=True", "efsign", "topk:density=0.05", "micro:density=0.05", *IN_BFLOAT16]
)
@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 5), (4, 1), (1, 3)])
def test_redistribution_conserves_residuals(text, before, after, seed):
    """The mean of the residuals stays the same, and the run continues with identical averages on all ranks."""
    compressor = parse_compressor(text)
    states = run_ranks_in_threads(before, lambda transport: run(transport, compressor, seed, range(4))[1])
    mean_residual = np.mean(
        [residual_of(compressor, state, before).numpy() for state in states], axis=0, dtype=np.float64
    )
    redistributed = redistribute(compressor, list(reversed(states)), after)
    for state in redistributed:
        assert state["step"] == 4
        residual = residual_of(compressor, state, after).numpy()
        loss = 2**-8 if text in IN_BFLOAT16 else 1e-6
        np.testing.assert_allclose(residual, mean_residual, rtol=loss, atol=1e-7 * np.abs(mean_residual).max())
    assert np.abs(mean_residual).max() > 0.01

    def resume(transport):
        return run(transport, compressor, seed, range(4, 6), redistributed[transport.rank])[0]

    found = run_ranks_in_threads(after, resume)
    assert all(torch.equal(found[0][step], each[step]) for each in found for step in range(2))


def residual_of(compressor, state, ranks):
    """Return the residual of a reducer with this state."""

    def work(transport):
        if transport.rank != state["rank"]:
            return None
        steps = steps_of(transport, compressor)
        steps._prepare()
        steps.load_state_dict(state)
        return steps._reducer.residual()

    return run_ranks_in_threads(ranks, work)[state["rank"]]


def test_inconsistent_states_are_rejected(seed):
    compressor = parse_compressor("efsign")
    states = run_ranks_in_threads(3, lambda transport: run(transport, compressor, seed, range(2))[1])
    with pytest.raises(DataError, match="no states"):
        redistribute(compressor, [], 2)
    with pytest.raises(DataError, match=r"the states of 3 ranks are needed; got ranks \[0, 2\]"):
        redistribute(compressor, [states[2], states[0]], 2)
    with pytest.raises(DataError, match="different step: 2 and 7"):
        redistribute(compressor, [*states[:2], {**states[2], "step": 7}], 2)
    with pytest.raises(DataError, match=r"the saved state has compressor EFSign\(.* instead of QSGD"):
        redistribute(parse_compressor("qsgd:bits=4"), states, 2)
    with pytest.raises(DataError, match="ranks must be 1 or more; got 0"):
        redistribute(compressor, states, 0)
    with pytest.raises(DataError, match="not a state of DDPCompression: it has no"):
        redistribute(compressor, [{"model": 1}], 2)


def test_check_identity():
    own = identity(parse_compressor("efsign"), 1, 4)
    complete = {**own, "step": 0, "shapes": [], "reducer": {}, "policy": {}}
    check_identity(complete, own)
    with pytest.raises(
        DataError, match="the saved state has ranks 2 instead of 4: convert the states with redistribute"
    ):
        check_identity({**complete, "ranks": 2}, own)
    with pytest.raises(DataError, match="the saved state has rank 0 instead of 1"):
        check_identity({**complete, "rank": 0}, own)
    with pytest.raises(DataError, match="it has no policy, step"):
        check_identity({name: value for name, value in complete.items() if name not in ("step", "policy")}, own)


@pytest.mark.parametrize("text", IN_BFLOAT16)
def test_residuals_in_bfloat16_follow_their_names(text):
    """Exact, because the sum of the residual and that of an average has few digits."""
    compressor, layout = parse_compressor(text), layout_of_shapes([[4], [3]])
    values = torch.tensor([3.0, -1.5, 0.5, 2.0, 7.0, -8.0, 0.25], dtype=torch.bfloat16)
    reducer = {"residual": values, "owned_residual": torch.zeros(7, dtype=torch.bfloat16)}
    old = {**identity(compressor, 0, 1, layout), "names": ["a", "b"], "step": 2, "policy": {}, "reducer": reducer}
    found = renamed(compressor, old, ["b", "new"], layout_of_shapes([[3], [2]]))["reducer"]["residual"]
    assert found.dtype == torch.bfloat16 and found.tolist() == [7.0, -8.0, 0.25, 0.0, 0.0]


def test_the_velocities_of_dgc_follow_their_names():
    """Parameters of two runs have different orders; one is new, and one has another shape."""

    def spans(*lengths):
        ends = np.cumsum(lengths).tolist()
        return [ParameterSpan(end - length, (length,)) for end, length in zip(ends, lengths, strict=True)]

    old = {"names": ["a", "b", "c"], "shapes": [[3], [2], [4]], "rank": 0, "ranks": 2, "step": 5, "policy": {}}
    values = torch.arange(9.0)
    found = renamed(
        DGC(), {**old, "reducer": {"momentum": values, "velocity": -values}}, ["c", "new", "b", "a"], spans(4, 2, 2, 5)
    )
    wanted = [5, 6, 7, 8, 0, 0, 3, 4, 0, 0, 0, 0, 0]
    assert found["reducer"]["momentum"].tolist() == wanted
    assert found["reducer"]["velocity"].tolist() == [-each for each in wanted]
    assert found["names"] == ["c", "new", "b", "a"] and found["shapes"] == [[4], [2], [2], [5]] and found["step"] == 5
