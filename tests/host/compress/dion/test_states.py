"""Saved states of Dion: resumption to the bit from every step, other numbers of ranks, and states that do not fit."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from tests.helpers.ddp_scenes import error_text
from tests.helpers.dion_textbook import ADAM, MATRICES, OTHERS, flat, gradient, same_state, set_gradients, start

from bitlane.compress.dion.optimizer import Dion
from bitlane.compress.dion.redistribute import redistribute_dion
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

SHAPES, STEPS = [*MATRICES, *OTHERS], 6


class Training:
    def __init__(self, transport, seed, bits=None, **settings):
        self.seed, self.rank = seed, transport.rank
        self.parameters = start(seed, SHAPES)
        self.others = torch.optim.AdamW(self.parameters[len(MATRICES) :], **ADAM)
        own = {"rank_fraction": 0.5, "bits": bits, "other_optimizer": self.others, **settings}
        self.dion = Dion(self.parameters[: len(MATRICES)], process_group=transport, **own)

    def steps(self, begin, end, rank=None):
        for step in range(begin, end):
            own = self.rank if rank is None else rank
            set_gradients(self.parameters, gradient(self.seed, own, step, SHAPES))
            self.dion.param_groups[0]["lr"] = 0.05 / (step + 1)  # a part of the state
            self.dion.step()

    def save(self):
        file = io.BytesIO()
        torch.save([[each.detach() for each in self.parameters], self.dion.state_dict()], file)
        return file.getvalue()

    def load(self, data):
        weights, state = torch.load(io.BytesIO(data), weights_only=True)
        with torch.no_grad():
            for each, saved in zip(self.parameters, weights, strict=True):
                each.copy_(saved)
        self.dion.load_state_dict(state)


@pytest.mark.parametrize("bits", [None, 8, 3])
def test_resumption_from_every_step_is_bit_identical(bits, seed, threads):
    """Also before the first step; and saving changes nothing."""

    def uninterrupted(transport):
        training = Training(transport, seed, bits)
        training.steps(0, STEPS)
        return flat(training.parameters), training.dion.state_dict()

    def saving(transport):
        training, saved = Training(transport, seed, bits), []
        for step in range(STEPS):
            saved.append(training.save())
            training.steps(step, step + 1)
        return saved

    saved, expected = threads(2, saving), threads(2, uninterrupted)
    for step in range(STEPS):

        def resumed(transport, step=step):
            training = Training(transport, seed + 1, bits)  # other weights before they are loaded
            training.seed = seed
            training.load(saved[transport.rank][step])
            again = training.save()
            training.steps(step, STEPS)
            return flat(training.parameters), training.dion.state_dict(), again

        for (parameters, state), (found, after, again), own in zip(expected, threads(2, resumed), saved, strict=True):
            assert torch.equal(parameters, found)
            assert same_state(after, state)
            first, second = (torch.load(io.BytesIO(each), weights_only=True) for each in (again, own[step]))
            assert same_state(first, second)


@pytest.mark.parametrize("ranks", [1, 3])
def test_another_number_of_ranks(ranks, seed, threads):
    """The ranks go on with the mean of the momenta; with the same gradients on all ranks nothing else changes."""

    def before(transport):
        training = Training(transport, seed)
        training.steps(0, 3)
        return training.save(), training.dion.compressor

    def straight(transport):
        training = Training(transport, seed)
        training.steps(0, 3)
        training.steps(3, STEPS, rank=0)
        return flat(training.parameters)

    found = threads(2, before)
    saved, compressor = [torch.load(io.BytesIO(each), weights_only=True) for each, _ in found], found[0][1]
    states = redistribute_dion(compressor, [each[1] for each in saved], ranks)

    def after(transport):
        training, file = Training(transport, seed), io.BytesIO()
        torch.save([saved[0][0], states[transport.rank]], file)
        training.load(file.getvalue())
        training.steps(3, STEPS, rank=0)
        return flat(training.parameters)

    expected = threads(2, straight)[0]
    for each in threads(ranks, after):
        torch.testing.assert_close(each, expected, rtol=0, atol=1e-4)


def test_states_that_do_not_fit(seed, threads):
    def work(transport):
        training = Training(transport, seed)
        early = training.dion.state_dict()
        training.steps(0, 2)
        state, parameters = training.dion.state_dict(), flat(training.parameters)
        other = Training(transport, seed, rank_fraction=0.25)
        no_others = Dion(start(seed, MATRICES), rank_fraction=0.5, process_group=transport)
        exchange = state["exchange"]
        texts = [
            error_text(lambda: other.dion.load_state_dict(state)),
            error_text(lambda: no_others.load_state_dict(state)),
            error_text(lambda: training.dion.load_state_dict(early)),
            error_text(lambda: training.dion.load_state_dict({})),
            error_text(lambda: training.dion.load_state_dict({**state, "exchange": {**exchange, "rank": 5}})),
            error_text(lambda: training.dion.load_state_dict({**state, "exchange": {**exchange, "ranks": 9}})),
            error_text(lambda: training.dion.load_state_dict({**state, "other_optimizer": None})),
        ]
        assert torch.equal(flat(training.parameters), parameters)
        assert same_state(training.dion.state_dict(), state)
        with torch.no_grad():
            training.parameters[0].add_(1)
        return [*texts, error_text(lambda: training.dion.load_state_dict(state))]

    for texts in threads(2, work):
        assert all(each.startswith("DataError: ") for each in texts)
        for text, part in zip(
            texts,
            [
                "the saved state has compressor DionFactors(matrices=6, rank_fraction=0.5",
                "the saved state has shapes",
                "before its first step",
                "not a state of Dion: it must have exchange",
                "has rank 5 instead of",
                "has ranks 9 instead of 2: convert the states with redistribute_dion",
                "the saved state has no other_optimizer",
                "the parameters differ from the saved state",
            ],
            strict=True,
        ):
            assert part in text


def test_a_copy_has_the_state(seed, threads):
    def work(transport):
        training = Training(transport, seed)
        training.steps(0, 2)
        copied = copy.deepcopy(training.dion)
        assert same_state(copied.state_dict(), training.dion.state_dict())
        with pytest.raises(AttributeError, match="a copy of a Dion has no step"):
            copied.step()
        return copied.stats.steps

    assert threads(2, work) == [2, 2]


def test_states_of_a_missing_rank(seed, threads):
    def work(transport):
        training = Training(transport, seed)
        training.steps(0, 1)
        return training.dion.state_dict(), training.dion.compressor

    found = threads(2, work)
    with pytest.raises(DataError, match=r"the states of 2 ranks are needed; got ranks \[1\]"):
        redistribute_dion(found[0][1], [found[1][0]], 4)
