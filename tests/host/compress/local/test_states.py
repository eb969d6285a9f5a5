"""States of a `DiLoCo`: a resumed training has the bits of an uninterrupted one; wrong states change nothing."""

from __future__ import annotations

import io

import pytest
import torch
from tests.helpers.ddp_scenes import error_text
from tests.helpers.diloco_scenes import build, flat, inner_optimizer, inner_step, running_averages

from bitlane.compress import DGC, QSGD, Adaptive, EFSign, PowerSGD
from bitlane.compress.local.diloco import DiLoCo
from bitlane.compress.local.redistribute import redistribute_local
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

RANKS, STEPS = 2, 13
SETTINGS = {
    "plain": {"every": 4},
    "no feedback": {"every": 4, "compressor": QSGD(3, seed=5)},
    "fragments": {"every": 5, "fragments": 3},
    "delayed": {"every": 4, "fragments": 2, "delay": 1},
    "much delayed": {"every": 5, "delay": 4, "blend": 0.25},
    "policy": {"every": 2, "compressor": QSGD(Adaptive(period=2), error_feedback=True)},
    "low rank": {"every": 3, "compressor": PowerSGD(rank=2)},
    "sparse": {"every": 3, "compressor": DGC(density=0.1)},
    "ahead": {"every": 3, "compressor": EFSign(), "step_ahead": 0.5},
    "ahead in fragments": {"every": 4, "fragments": 2, "step_ahead": 1.0},
    "adam": {"every": 3, "outer_optimizer": lambda tensors: torch.optim.AdamW(tensors, lr=0.1, amsgrad=True)},
}
FOUR_BITS = QSGD(4, error_feedback=True)


class Training:
    def __init__(self, transport, settings, start=0):
        self.rank = transport.rank
        self.model = build(self.rank + start)
        self.optimizer = inner_optimizer(self.model)
        self.diloco = DiLoCo(self.model, process_group=transport, **{"compressor": FOUR_BITS, **settings})

    def steps(self, seed, begin, end):
        for step in range(begin + 1, end + 1):
            inner_step(self.model, self.optimizer, seed, self.rank, step)
            self.diloco.step()

    def save(self):
        file = io.BytesIO()
        torch.save([each.state_dict() for each in (self.model, self.optimizer, self.diloco)], file)
        return file.getvalue()

    def load(self, data):
        saved = torch.load(io.BytesIO(data), weights_only=True)
        for each, state in zip((self.model, self.optimizer, self.diloco), saved, strict=True):
            each.load_state_dict(state)

    def bits(self):
        state = self.diloco.state_dict()
        return torch.cat([flat(self.model), *(each["global"] for each in state["fragments"])])


@pytest.mark.parametrize("name", SETTINGS)
def test_resumption_from_every_step_is_bit_identical(name, seed, threads):
    """Also from the steps between the begin of an exchange and the use of its average; and saving changes nothing."""
    settings = SETTINGS[name]

    def uninterrupted(transport):
        training = Training(transport, settings)
        training.steps(seed, 0, STEPS)
        return training.bits()

    def saving(transport):
        training, saved = Training(transport, settings), []
        for step in range(STEPS + 1):
            saved.append(training.save())
            training.steps(seed, step, min(step + 1, STEPS))
        return saved, training.bits()

    wanted = threads(RANKS, uninterrupted)
    saved = threads(RANKS, saving)
    assert [torch.equal(bits, w) for (_, bits), w in zip(saved, wanted, strict=True)] == [True] * RANKS
    for step in range(STEPS + 1):

        def resumed(transport, step=step):
            training = Training(transport, settings, start=9)
            training.load(saved[transport.rank][0][step])
            training.steps(seed, step, STEPS)
            return training.bits()

        found = threads(RANKS, resumed)
        assert [torch.equal(f, w) for f, w in zip(found, wanted, strict=True)] == [True] * RANKS, step
    assert running_averages() == []


def test_going_back_within_a_training(seed, threads):
    """A state that is loaded in the same object, with an exchange in progress, before and after its rounds."""

    def work(transport):
        training = Training(transport, {"every": 4, "delay": 2})
        first = training.save()
        training.steps(seed, 0, 9)  # an exchange has begun at 8
        late, wanted = training.save(), None
        training.steps(seed, 9, STEPS)
        wanted = training.bits()
        equal = []
        for data, begin in ((late, 9), (first, 0), (late, 9)):
            training.load(data)
            training.steps(seed, begin, STEPS)
            equal.append(torch.equal(training.bits(), wanted))
        return equal

    assert threads(RANKS, work) == [[True] * 3] * RANKS


def test_a_learning_rate_schedule_of_the_outer_optimizer_outlives_a_state(threads):
    def work(transport):
        training = Training(transport, {"every": 1})
        (outer,) = training.diloco.outer_optimizers
        training.steps(1, 0, 1)
        saved = training.save()
        outer.param_groups[0]["lr"] = 0.1
        training.load(saved)
        (after,) = training.diloco.outer_optimizers
        return after is outer, after.param_groups[0]["lr"]

    assert threads(1, work) == [(True, 0.7)]


def test_a_buffer_that_is_not_saved_may_differ(threads):
    def work(transport):
        training = Training(transport, {"every": 6})
        training.model.register_buffer("cache", torch.zeros(2), persistent=False)
        saved = training.save()
        training.model.cache += 1
        training.load(saved)
        return training.diloco.inner_steps

    assert threads(1, work) == [0]


def changed(**fields):
    return lambda state: {**state, **fields}


def in_fragment(**fields):
    return lambda state: {**state, "fragments": [{**state["fragments"][0], **fields}, *state["fragments"][1:]]}


def in_pending(**fields):
    return lambda state: {**state, "pending": {**state["pending"], **fields}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: None, "not a state of DiLoCo: NoneType"),
        (lambda state: {"step": 3}, "not a state of DiLoCo: it has no format, fragments, model"),
        (changed(rank=1), "the saved state has rank 1 instead of 0"),
        (changed(ranks=4), "the saved state has ranks 4 instead of 1: convert the states with redistribute_local"),
        (changed(format=2), "the saved state has format 2 instead of 1"),
        (changed(settings="QSGD"), "the saved state has settings QSGD instead of Schedule(every=6"),
        (changed(shapes=["weight"]), "the saved state has shapes ['weight'] instead of ['0.weight: torch.float32"),
        (changed(step=-1), "step of the saved state=-1"),
        (changed(model="0"), "the parameters or buffers of the model differ from the saved state"),
        (changed(fragments=[]), "the saved state has 0 fragments instead of 2"),
        (changed(fragments=[1, 2]), "the saved state of a fragment must have average, global, optimizer, start"),
        (in_fragment(**{"global": torch.ones(3)}), "the global copy in the saved state must be torch.float32 [35]"),
        (in_fragment(**{"global": torch.ones(35).double()}), "got torch.float64 [35]"),
        (in_fragment(optimizer={"state": {}, "param_groups": []}), "the saved state of the outer optimizer does not"),
        (in_fragment(start=torch.zeros(3)), "the start in the saved state must be torch.float32 "),
        (in_fragment(average={}), "not a state of DDPCompression: it has no"),
        (changed(pending={}), "a pending average in the saved state must have fragment, due and average"),
        (in_pending(due=9), "cannot have an average of fragment 0 due at 9"),
        (in_pending(fragment=1), "cannot have an average of fragment 1 due at 8"),
        (in_pending(average=torch.ones(2)), "the average in the saved state must be torch.float32 [35]; got"),
    ],
)
def test_wrong_states_are_refused_and_change_nothing(change, message, threads):
    def work(transport):
        training = Training(transport, {"every": 6, "fragments": 2, "delay": 2})
        training.steps(4, 0, 6)
        before = training.bits()
        text = error_text(lambda: training.diloco.load_state_dict(change(training.diloco.state_dict())))
        return text, torch.equal(before, training.bits()), training.diloco.inner_steps

    ((text, same, steps),) = threads(1, work)
    assert text.startswith("DataError: ") and message in text
    assert same and steps == 6


def test_another_model_or_another_order_is_named(threads):
    """A model that is loaded before the `DiLoCo` is made gets the parameters of rank 0."""

    def work(transport):
        training = Training(transport, {"every": 6})
        training.steps(4, 0, 3)
        saved = training.diloco.state_dict()
        again = DiLoCo(training.model, compressor=FOUR_BITS, every=6, process_group=transport)
        return error_text(lambda: again.load_state_dict(saved))

    first, second = threads(2, work)
    assert "DataError: the parameters or buffers of the model differ from the saved state" in second
    assert "DataError" not in (first or "")


@pytest.mark.parametrize("new", [1, 3])
@pytest.mark.parametrize("name", ["plain", "delayed", "sparse", "ahead"])
def test_another_number_of_ranks_keeps_the_global_parameters_and_the_residuals(name, new, seed, threads):
    """The sum of the residuals, divided by the number of ranks, is what the next average still has to apply."""
    settings = {"compressor": FOUR_BITS, **SETTINGS[name]}

    def old(transport):
        training = Training(transport, settings)
        training.steps(seed, 0, 12)  # a round of each; with a delay one has begun
        state = training.diloco.state_dict()
        training.diloco.finish()
        return state, flat(training.model)

    states, parameters = zip(*threads(2, old), strict=True)
    converted = redistribute_local(settings["compressor"], states[::-1], new)

    def go_on(transport):
        training = Training(transport, settings, start=9)
        training.diloco.load_state_dict(converted[transport.rank])
        begin = flat(training.model)
        training.steps(seed, 12, 20)
        return begin, training.diloco.inner_steps, training.bits()[-66:]

    found = threads(new, go_on)
    for begin, steps, world in found:
        assert torch.equal(begin, parameters[0]) and steps == 20
        assert torch.equal(world, found[0][2])
    for number in range(len(states[0]["fragments"])):
        before, after = (pending_sum([state["fragments"][number] for state in each]) for each in (states, converted))
        torch.testing.assert_close(after.cpu() / new, before.cpu() / 2, rtol=1e-5, atol=1e-6)


def pending_sum(fragments):
    """Return the sum over ranks of what QSGD has kept back: that of each rank, and `ranks` times that of its part."""
    reducers = [each["average"]["reducer"] for each in fragments]
    if "owned_residual" not in reducers[0]:  # DGC: its own names
        return torch.zeros(1)
    owned = torch.cat([each["owned_residual"] for each in reducers])
    return sum(each["residual"] for each in reducers) + len(reducers) * owned


@pytest.mark.parametrize(
    ("choose", "ranks", "message"),
    [
        (lambda states: states, 0, "ranks must be 1 or more; got 0"),
        (lambda states: [], 2, "no states to redistribute"),
        (lambda states: states[:1], 2, r"the states of 2 ranks are needed; got ranks \[0\]"),
        (lambda states: [{"step": 3}], 2, "not a state of DiLoCo: it has no fragments, rank, ranks, settings, shapes"),
        (lambda states: [states[0], {**states[1], "step": 7}], 2, "states have different step: 4 and 7"),
    ],
)
def test_states_that_cannot_be_redistributed(choose, ranks, message, threads):
    def work(transport):
        training = Training(transport, {"every": 4})
        training.steps(3, 0, 4)
        return training.diloco.state_dict()

    states = threads(2, work)
    with pytest.raises(DataError, match=message):
        redistribute_local(FOUR_BITS, choose(states), ranks)
    with pytest.raises(DataError, match="the saved state has compressor"):
        redistribute_local(QSGD(8), states, 2)
