"""What moves between members: the sum of residuals is kept, bytes are checked, digests see each value."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from bitlane.compress import LQSGD, QSGD, MiCRO, TopK
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.echo import EchoTransport
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.compress.compressor import layout_of_shapes
from bitlane.compress.compressors.uncompressed import Uncompressed
from bitlane.compress.ddp.states import relocated, residual_of
from bitlane.compress.ddp.stats import Stats
from bitlane.compress.ddp.steps import StepRunner
from bitlane.compress.elastic.handover import (
    DIGEST_BYTES,
    MemberState,
    exchange_all,
    neighbour,
    packed_state,
    unpacked_states,
)
from bitlane.compress.elastic.mesh import Unreached
from bitlane.compress.local.fragments import Fragment, split_parameters
from bitlane.compress.local.outer import GlobalFragment, nesterov

pytestmark = pytest.mark.torch

SHAPES = [(40, 30), (50,), (600,)]
KEEPING = [QSGD(4, error_feedback=True), TopK(0.05), MiCRO(0.05), LQSGD(rank=2)]


def states_after(compressor, ranks, seed, rounds=2):
    """Return the states of ranks after some averages."""
    layout = layout_of_shapes(SHAPES)

    def work(transport):
        runner = StepRunner(compressor, transport, AlphaBetaModel(), layout, torch.device("cpu"), Stats())
        for number in range(rounds):
            generator = torch.Generator().manual_seed(seed % 2**40 + 10 * transport.rank + number)
            vector = torch.randn(layout[-1].end, generator=generator)
            runner.average(lambda vector=vector: vector)
        return runner.state_dict()

    return run_ranks_in_threads(ranks, work)


def residuals(compressor, states):
    return [residual_of(compressor, each).double() for each in states]


@pytest.mark.parametrize("compressor", KEEPING, ids=repr)
def test_the_residuals_of_those_that_stay_keep_their_weight_in_the_average(compressor, seed):
    old, staying = states_after(compressor, 3, seed), [0, 2]
    new = [relocated(compressor, old[rank], place, 2, 2 / 3) for place, rank in enumerate(staying)]
    before = sum(residuals(compressor, [old[rank] for rank in staying])) / 3
    after = sum(residuals(compressor, new)) / 2
    torch.testing.assert_close(after, before, rtol=1e-5, atol=1e-6)
    assert before.abs().max() > 1e-3
    assert [(each["rank"], each["ranks"], each["step"]) for each in new] == [(0, 2, 2), (1, 2, 2)]


@pytest.mark.parametrize("compressor", KEEPING, ids=repr)
def test_one_that_leaves_loses_nothing(compressor, seed):
    old = states_after(compressor, 3, seed)
    given = residual_of(compressor, old[1]) / 3
    new = [relocated(compressor, old[0], 0, 2, 2 / 3), relocated(compressor, old[2], 1, 2, 2 / 3, given * 2)]
    total = sum(residuals(compressor, old)) / 3
    torch.testing.assert_close(sum(residuals(compressor, new)) / 2, total, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("compressor", [*KEEPING, QSGD(8), Uncompressed()], ids=repr)
def test_one_that_joins_begins_without_a_residual(compressor, seed):
    old = states_after(compressor, 2, seed)
    new = relocated(compressor, old[0], 2, 3, 0.0)
    found = residual_of(compressor, new)
    assert found is None or not found.any()


@pytest.mark.parametrize("compressor", KEEPING, ids=repr)
def test_what_a_member_has_learned_does_not_change_with_the_members(compressor, seed):
    """Parameters that are ahead of the global ones stay where they are when the residual gets another unit."""

    def work(transport):
        model = nn.Linear(40, 30)
        (part,) = split_parameters(model, 1)

        def runner(transport=transport):
            return StepRunner(compressor, transport, AlphaBetaModel(), part.layout, part.device, Stats())

        fragment = GlobalFragment(part, nesterov, runner)
        generator = torch.Generator().manual_seed(seed % 2**40 + transport.rank)
        learned = torch.randn(part.count, generator=generator)
        fragment.outer_step(fragment.average(lambda: learned))
        fragment.set_parameters(0.5)
        part.assign(part.vector() - learned)
        before, average = fragment.pseudo_gradient(), fragment.average_state()
        ahead = (part.vector() + learned - fragment.vector).abs().max()
        fragment.reconnect(lambda: runner(EchoTransport(1)), relocated(compressor, average, 0, 1, 0.5))
        return before, fragment.pseudo_gradient(), learned, ahead

    for before, after, learned, ahead in run_ranks_in_threads(2, work):
        assert torch.equal(before, after) and ahead > 0.01
        torch.testing.assert_close(after, learned, rtol=1e-4, atol=1e-4)


def test_a_state_returns_and_changed_bytes_are_told(seed):
    rng = np.random.default_rng(seed)
    first, second = {"step": 3, "values": torch.randn(50)}, {"unsent": [None, torch.arange(4)]}
    data = torch.cat([packed_state(first), packed_state(second)])
    found = unpacked_states(data, "a")
    assert found[0]["step"] == 3 and torch.equal(found[0]["values"], first["values"])
    assert found[1]["unsent"][0] is None and torch.equal(found[1]["unsent"][1], torch.arange(4))
    assert unpacked_states(data[:0], "a") == []
    changed = data.clone()
    changed[int(rng.integers(8 + DIGEST_BYTES, len(packed_state(first))))] ^= 1 << int(rng.integers(8))
    with pytest.raises(Unreached, match="the state of a arrived with another digest") as error:
        unpacked_states(changed, "a")
    assert error.value.names == ("a",)


def test_the_neighbour_is_the_next_in_order():
    members = ["b", "d", "f"]
    assert [neighbour(name, members) for name in "aceg"] == ["b", "d", "f", "b"]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_all_get_what_each_sends(ranks, seed):
    lengths = np.random.default_rng(seed).integers(0, 3, (ranks, ranks)) * 100

    def work(transport):
        outgoing = [
            torch.full((int(length),), 16 * transport.rank + other, dtype=torch.uint8)
            for other, length in enumerate(lengths[transport.rank])
        ]
        return exchange_all(transport, outgoing)

    for rank, received in enumerate(run_ranks_in_threads(ranks, work)):
        for sender, each in enumerate(received):
            assert each.tolist() == [16 * sender + rank] * lengths[sender][rank]


def member_state():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    model[2].weight.requires_grad_(False)
    trained = [each for each in model.parameters() if each.requires_grad]
    fragment = GlobalFragment(Fragment.of(trained), nesterov, lambda: None)
    inner = torch.optim.AdamW(trained, lr=0.1)
    return model, MemberState(model, [fragment], QSGD(4), [inner])


def step_of(optimizer):
    optimizer.step()
    return optimizer.state_dict()["state"]


def test_the_digest_sees_all_that_members_have_alike():
    _, state = member_state()
    seen = {state.digest()}
    state.fragments[0].vector[5] += 1
    seen.add(state.digest())
    state.fragments[0].outer_step(torch.ones_like(state.fragments[0].vector))
    state.fragments[0].vector[:] = member_state()[1].fragments[0].vector
    seen.add(state.digest())
    state.step = 9
    seen.add(state.digest())
    assert len(seen) == 4


def test_a_state_has_buffers_and_frozen_parameters_but_not_what_a_member_has_learned():
    model, state = member_state()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    model(torch.ones(2, 3)).sum().backward()
    moments = copy.deepcopy(step_of(state.inner[0]))
    model.load_state_dict(before)
    saved = state.saved()
    step_of(state.inner[0])
    assert set(saved["tensors"]) == {"2.weight", "1.running_mean", "1.running_var", "1.num_batches_tracked"}
    other_model, other = member_state()
    with torch.no_grad():
        for each in other_model.state_dict().values():
            each.add_(1)
    other.load({**saved, "step": 12})
    assert other.step == 12
    for own, expected in zip(other.inner[0].state_dict()["state"].values(), moments.values(), strict=True):
        assert own.keys() == expected.keys()
        assert all(torch.equal(own[name], expected[name]) for name in expected)
    for name, each in other_model.state_dict().items():
        assert torch.equal(each, before[name]), name
