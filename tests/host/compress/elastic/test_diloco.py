"""Members that die, stop, join, leave and come back: the others go on, with the bits of plain runs of those there."""

from __future__ import annotations

import random
import re
import signal

import numpy as np
import pytest
from tests.helpers.elastic_members import EVERY, Crew, Plan, build
from tests.helpers.elastic_oracle import expected

from bitlane.compress import DGC, QSGD, EFSign, ElasticDiLoCo, TopK
from bitlane.compress.elastic.membership import CoordinatorLost
from bitlane.compress.local.diloco import FOUR_BITS
from bitlane.compress.local.local_sgd import take_average
from bitlane.compress.rank_state import state_of_bytes
from bitlane.compress.registry import EXAMPLES, parse_compressor
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

STEPS = 12
SILENCE = 1.0  # seconds, where a test waits for them
AHEAD = {"step_ahead": 0.5}


def check(crew, threads, rounds, compressor=FOUR_BITS, seed=7, **changes):
    """Hold the rounds of all members against plain runs: their members, and the parameters to the bit."""
    found = crew.rounds()
    assert {step: "".join(members) for step, (members, _) in found.items()} == rounds
    members = {step: each for step, (each, _) in found.items()}
    for step, parameters in expected(threads, members, compressor, seed, **changes).items():
        assert np.array_equal(parameters.numpy(), found[step][1]), step


@pytest.mark.parametrize(
    ("compressor", "step_ahead"),
    [
        pytest.param(FOUR_BITS, 0.0, id="qsgd"),
        pytest.param(EFSign(), 0.5, id="ahead"),
        pytest.param(QSGD(bits=4), 0.0, id="plain", marks=pytest.mark.slow),
        pytest.param(TopK(0.1, value_bits=8), 0.0, id="topk", marks=pytest.mark.slow),
        pytest.param(TopK(0.1, value_bits=8), 1.0, id="topk, ahead", marks=pytest.mark.slow),
    ],
)
def test_the_others_go_on_after_a_death_between_rounds(compressor, step_ahead, seed, threads):
    victim = random.Random(seed).choice("abc")
    settings = {"compressor": compressor, "step_ahead": step_ahead}
    with Crew(3) as crew:
        for name in "abc":
            dies = EVERY + 2 if name == victim else None
            crew.start(name, Plan(seed=seed, dies_before=dies, settings=settings))
        crew.finish()
        rest = "abc".replace(victim, "")
        check(crew, threads, {3: "abc", 6: rest, 9: rest, 12: rest}, compressor, seed, step_ahead=step_ahead)
        for name in rest:
            stats = crew.stats(name)
            assert (stats.generations, stats.rounds, stats.repeated, stats.lost) == (2, 4, 0, [victim])
        assert crew.coordinator.wait(20) == 0


MOMENTS = [
    pytest.param(0, id="handshake", marks=pytest.mark.slow),
    pytest.param(1, id="codes"),
    pytest.param(2, id="averages", marks=pytest.mark.slow),
    pytest.param(-1, id="vote", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("exchanges", MOMENTS)
@pytest.mark.parametrize("ahead", [pytest.param(False, id=""), pytest.param(True, id="ahead", marks=pytest.mark.slow)])
def test_the_others_repeat_a_round_in_which_a_member_dies(exchanges, ahead, seed, threads):
    victim = random.Random(seed).choice("abc")
    settings = AHEAD if ahead else {}
    with Crew(3) as crew:
        for name in "abc":
            plan = Plan(seed=seed, signal_in=(6, exchanges) if name == victim else None, settings=settings)
            crew.start(name, plan)
        crew.finish()
        rest = "abc".replace(victim, "")
        check(crew, threads, {3: "abc", 6: rest, 9: rest, 12: rest}, **{"seed": seed, **settings})
        assert all(crew.stats(name).repeated == 1 for name in rest)


@pytest.mark.slow
def test_a_round_counts_if_a_member_dies_after_its_vote(seed, threads):
    victim = random.Random(seed).choice("abc")
    with Crew(3) as crew:
        for name in "abc":
            crew.start(name, Plan(seed=seed, signal_in=(6, -2) if name == victim else None))
        crew.finish()
        rest = "abc".replace(victim, "")
        second = "".join(crew.rounds()[6][0])  # the others may vote before or after its death is known
        assert second in ("abc", rest)
        check(crew, threads, {3: "abc", 6: second, 9: rest, 12: rest}, seed=seed)


@pytest.mark.slow
def test_two_die_at_once_and_the_last_goes_on_alone(seed, threads):
    last = random.Random(seed).choice("abc")
    with Crew(3) as crew:
        for name in "abc":
            crew.start(name, Plan(seed=seed, signal_in=None if name == last else (6, 1)))
        crew.finish()
        check(crew, threads, {3: "abc", 6: last, 9: last, 12: last}, seed=seed)
        assert crew.coordinator.wait(20) == 0


@pytest.mark.parametrize("ahead", [pytest.param(False, id=""), pytest.param(True, id="ahead", marks=pytest.mark.slow)])
def test_a_member_joins_after_a_round(ahead, seed, threads):
    settings = AHEAD if ahead else {}
    with Crew(2) as crew:
        for name in "ac":
            crew.start(name, Plan(seed=seed, gates=(6,), settings=settings))
        for name in "ac":
            crew.until(name, "round", 6)
        crew.start("b", Plan(seed=seed, build_seed=1, settings=settings))
        crew.line("b joins with the state of step 0")
        crew.let_go("a", "c")
        crew.finish()
        assert crew.until("b", "joined")[1:] == (9, ("a", "b", "c"))
        check(crew, threads, {3: "ac", 6: "ac", 9: "ac", 12: "abc"}, **{"seed": seed, **settings})


@pytest.mark.slow
def test_a_member_dies_and_comes_back(seed, threads):
    with Crew(2) as crew:
        crew.start("a", Plan(seed=seed, gates=(6,)))
        crew.start("b", Plan(seed=seed, dies_before=5))
        crew.until("a", "round", 6)
        crew.start("b", Plan(seed=seed, build_seed=1))
        crew.line("b joins", 2)
        crew.let_go("a")
        crew.finish()
        check(crew, threads, {3: "ab", 6: "a", 9: "a", 12: "ab"}, seed=seed)
        assert crew.stats("a").lost == ["b"] and crew.stats("b").lost == []


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, AHEAD], ids=["", "ahead"])
@pytest.mark.parametrize("heir", ["joins", "stays"])
def test_a_member_that_leaves_hands_over_what_it_has_not_sent(heir, settings, seed, threads):
    leaver = random.Random(seed).choice("abc")
    rest = "abc".replace(leaver, "")
    with Crew(3) as crew:
        for name in "abc":
            plan = Plan(seed=seed, gates=(3,), leaves_after=5 if name == leaver else None, settings=settings)
            crew.start(name, plan)
        for name in "abc":
            crew.until(name, "round", 3)
        if heir == "joins":  # in the formation before
            crew.start("d", Plan(seed=seed, build_seed=1, settings=settings))
            crew.line("d joins")
        crew.let_go(*"abc")
        crew.finish()
        rest += "d" * (heir == "joins")
        rounds = {3: "abc", 6: rest[:2], 9: rest, 12: rest}
        check(crew, threads, rounds, **{"seed": seed, "left": leaver, **settings})
        assert all(crew.stats(name).lost == [] for name in rest)


@pytest.mark.parametrize("where", [pytest.param(None, id="training", marks=pytest.mark.slow), *MOMENTS])
def test_a_stopped_member_is_voted_out_and_joins_again(where, seed, threads):
    victim = random.Random(seed).choice("abc")
    rest = "abc".replace(victim, "")
    with Crew(3, silence=SILENCE) as crew:
        for name in rest:
            crew.start(name, Plan(seed=seed, gates=(6,)))
        interrupt = None if where is None else (6, where)
        crew.start(victim, Plan(seed=seed, gates=(3,), signal_in=interrupt, signal=signal.SIGSTOP))
        crew.until(victim, "round", 3)
        if where is None:
            crew.signal(victim, signal.SIGSTOP)
        crew.let_go(victim)
        for name in rest:
            crew.until(name, "round", 6)
        crew.signal(victim, signal.SIGCONT)
        crew.line(f"{victim} joins", 2)
        crew.let_go(*rest)
        crew.finish()
        check(crew, threads, {3: "abc", 6: rest, 9: rest, 12: "abc"}, seed=seed)
        assert crew.stats(victim).rejoined == 1


@pytest.mark.slow
def test_a_stopped_member_ends_with_one_line_if_it_shall_not_rejoin(seed):
    with Crew(2, silence=SILENCE) as crew:
        crew.start("a", Plan(seed=seed))
        crew.start("b", Plan(seed=seed, gates=(3,), settings={"rejoin": False}))
        crew.until("b", "round", 3)
        crew.signal("b", signal.SIGSTOP)
        crew.let_go("b")
        crew.until("a", "ended")
        crew.signal("b", signal.SIGCONT)
        assert crew.error("b") == (
            "VotedOut: the coordinator has removed this member: it gave no sign of life for 1 seconds"
        )


def test_a_lost_coordinator_ends_all_members_with_one_line(seed):
    with Crew(2) as crew:
        for name in "ab":
            crew.start(name, Plan(seed=seed, gates=(6,), settings={"patience": 0.5}))
        for name in "ab":
            crew.until(name, "round", 6)
        crew.coordinator.kill()
        crew.let_go("a", "b")
        for name in "ab":
            error = crew.error(name)
            assert error.startswith(f"CoordinatorLost: no coordinator at {crew.address} within 0.5 seconds"), error


@pytest.mark.slow
def test_a_new_coordinator_goes_on_with_the_members(seed, threads):
    with Crew(3) as crew:
        for name in "abc":
            crew.start(name, Plan(seed=seed, gates=(6,)))
        for name in "abc":
            crew.until(name, "round", 6)
        crew.coordinator.kill()
        crew.coordinator.wait()
        crew.start_coordinator()
        crew.let_go(*"abc")
        crew.finish()
        check(crew, threads, dict.fromkeys([3, 6, 9, 12], "abc"), seed=seed)


@pytest.mark.slow
def test_the_coordinator_tells_that_the_state_is_lost(seed):
    with Crew(2) as crew:
        for name in "ab":
            crew.start(name, Plan(seed=seed, signal_in=(6, 1)))
        assert crew.coordinator.wait(60) == 1
        crew.line("all members with the state of step 3 have ended: start again from a checkpoint")


@pytest.mark.slow
def test_fragments_and_local_sgd_go_on_and_lose_nothing(seed):
    victim = random.Random(seed).choice("abc")
    settings = {"fragments": 2, "blend": 0.25, "debug": True, "outer_optimizer": take_average}
    with Crew(3) as crew:
        for name in "abc":
            crew.start(name, Plan(seed=seed, settings=settings, dies_before=6 if name == victim else None))
        crew.finish()
        rest = tuple("abc".replace(victim, ""))
        found = {step: members for step, (members, _) in crew.rounds().items()}
        assert found == {1: tuple("abc"), 3: tuple("abc"), 4: tuple("abc"), **dict.fromkeys([6, 7, 9, 10, 12], rest)}
        assert [crew.error(name) for name in rest] == ["nothing", "nothing"]


@pytest.mark.slow
def test_a_value_that_is_not_finite_raises_on_all_members(seed):
    with Crew(2) as crew:
        crew.start("a", Plan(seed=seed))
        crew.start("b", Plan(seed=seed, poison=5))
        for name in "ab":
            assert crew.error(name).startswith("DataError: step 1: the gradient of rank 1 has NaN"), crew.error(name)


@pytest.mark.slow
def test_a_training_continues_from_its_states(seed, threads):
    found = {}
    for steps in (6, 12):
        with Crew(2) as crew:
            for name in "ab":
                crew.start(name, Plan(steps, seed, state=found.get(name, b"")))
            crew.finish()
            found = {name: crew.until(name, "state")[1] for name in "ab"}
            rounds = crew.rounds()
    members = dict.fromkeys([3, 6, 9, 12], ("a", "b"))
    wanted = expected(threads, members, FOUR_BITS, seed)
    assert list(rounds) == [9, 12]
    assert all(np.array_equal(parameters, wanted[step].numpy()) for step, (_, parameters) in rounds.items())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"coordinator": "here"}, "coordinator='here': give the address as HOST:PORT"),
        ({"compressor": DGC()}, "keeps a momentum for each rank"),
        ({"name": ""}, "name must be a text of 1 to 200 characters; got ''"),
        ({"process_group": 1}, "process_group is not supported"),
        ({"inner_optimizers": [3]}, "inner_optimizers must be a list of torch optimizers; got int in it"),
        ({"patience": -1}, "patience must be 0 or more seconds; got -1"),
        ({"timeout": 0}, "timeout must be above 0 seconds; got 0"),
        ({"every": 0}, "every=0"),
        ({"fragments": 9}, "fragments=9 with every=3"),
        ({"state": {"step": 3}}, "not a state of ElasticDiLoCo: it has no format, fragments, inner, settings, tensors"),
        ({"nonfinite": "stop"}, "nonfinite must be one of"),
        ({"step_ahead": 2}, "step_ahead must be 0 to 1"),
        ({"step_ahead": 0.5, "blend": 0.5}, "it needs delay=0 and blend=0"),
    ],
)
def test_wrong_settings_are_refused_before_anything_connects(change, text):
    arguments = {"coordinator": "127.0.0.1:1", "every": 3, "patience": 0, **change}
    with pytest.raises(DataError, match=re.escape(text)):
        ElasticDiLoCo(build(0), arguments.pop("coordinator"), **arguments)


@pytest.mark.parametrize("text", [text for text in EXAMPLES if "mqgrad" not in text and "dgc" not in text])
def test_members_are_ahead_with_every_compressor_that_keeps_a_residual(text):
    """As in `DiLoCo`: the others are refused before anything connects."""
    without = text in ("none", "qsgd:bits=8", "terngrad")
    with pytest.raises(
        DataError if without else CoordinatorLost, match="is a share of the residual" if without else "coordinator"
    ):
        ElasticDiLoCo(build(0), "127.0.0.1:1", compressor=parse_compressor(text), every=3, step_ahead=0.5, patience=0)


def test_a_state_of_other_settings_is_refused(seed):
    with Crew(1) as crew:
        crew.start("a", Plan(3, seed))
        state = state_of_bytes(crew.until("a", "state")[1])
    with pytest.raises(DataError, match=re.escape("the saved state has Schedule(every=3")):
        ElasticDiLoCo(build(0), "127.0.0.1:1", every=4, patience=0, state=state)
    with pytest.raises(CoordinatorLost):
        ElasticDiLoCo(build(0), "127.0.0.1:1", every=3, patience=0, state=state)
