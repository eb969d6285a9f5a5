"""The study of deaths and joins: events, the table, the verdict, and a small run."""

from __future__ import annotations

import random

import pytest

from bitlane.errors import BitlaneError
from bitlane_studies.compression.elastic import __main__ as command
from bitlane_studies.compression.elastic.control import control_loss, members_of
from bitlane_studies.compression.elastic.crew import CrewResult
from bitlane_studies.compression.elastic.events import KINDS, LEAST, draw_events
from bitlane_studies.compression.elastic.member import ElasticJob, MemberResult, RoundReport
from bitlane_studies.compression.elastic.report import ElasticPair, table, verdict

pytestmark = pytest.mark.torch


def test_events_leave_some_members_and_never_more_than_at_the_begin(seed):
    rng = random.Random(seed)
    members, count = rng.randint(3, 6), rng.randint(1, 200)
    events = draw_events(count, members, 50, rng)
    alive, kinds = members, set()
    for before, event in zip([None, *events], events, strict=False):
        alive += 1 if event.kind == "joins" else -1
        kinds.add(event.kind)
        assert LEAST <= alive <= members and 2 <= event.time <= 45 and (before is None or before.time <= event.time)
    assert len(events) == count and kinds <= set(KINDS)


def result(seconds, loss, digests="same", failures=()):
    names = ("a", "b")
    rounds = {
        step: [RoundReport(step, names, f"{step} {digest}", step * seconds / 10) for digest in (digests, "same")]
        for step in (10, 20)
    }
    return CrewResult(rounds, [MemberResult(loss, 3, 5, 0.5)] * 2, list(failures), 4, 2)


def test_the_table_and_the_verdict():
    pairs = [
        ElasticPair(0, result(103.0, 2.01), result(100.0, 2.0), 3.25, 1.6),
        ElasticPair(1, result(103.0, 2.03), result(100.0, 2.1), 2.75, 1.7),
    ]
    row = table(pairs).splitlines()[2]
    assert " ".join(row.split()) == "0 4 2 0 2 0 3 103.0 100.0 +3.0% 2.0100 2.0000 3.25 1.6000"
    assert verdict(pairs).splitlines() == [
        "no restart and equal digests in all rounds: met",
        "time lost, at most 5%: +3.0%, met",
        "loss beside undisturbed, within 2 standard deviations (0.0707) of the seeds: -0.0300, met",
        "loss beside as many members, within 2 standard deviations (0.0707) of the seeds: +0.3700, missed",
    ]


@pytest.mark.parametrize("change", [{"digests": "other"}, {"failures": ["member-003"]}])
def test_a_difference_or_a_failure_misses_the_goal(change):
    pair = ElasticPair(0, result(120.0, 2.0, **change), result(100.0, 2.0), 4.0, 2.0)
    first, second = verdict([pair]).splitlines()
    assert first.endswith("missed") and second == "time lost, at most 5%: +20.0%, missed"


def test_too_few_members_are_refused():
    with pytest.raises(BitlaneError, match="--members must be 3 or more"):
        command.main(["--members", "2"])


def test_the_control_has_the_members_of_the_run():
    assert members_of(result(1.0, 2.0)) == [2, 2]
    job = ElasticJob(rounds=3, every=2, seed=1)
    losses = {members: control_loss(job, members) for members in ((1, 1, 1), (2, 2, 2), (2, 1, 2))}
    assert len({*losses.values()}) == 3, "the number of members in a round makes no difference"
    assert losses[2, 1, 2] == control_loss(job, [2, 1, 2])


@pytest.mark.slow
def test_the_control_without_events_ends_where_the_members_do(capsys):
    """It is a second implementation of the training: no transport, no compression, no elastic member."""
    size = ["--members", "3", "--events", "0", "--rounds", "12", "--every", "4", "--step-seconds", "0"]
    assert command.main([*size, "--seeds", "0"]) == 0
    quiet, members, control = map(float, capsys.readouterr().out.splitlines()[2].split()[-3:])
    assert members == 3 and abs(quiet - control) < 0.01


@pytest.mark.slow
def test_a_small_run(capsys):
    size = ["--members", "3", "--events", "4", "--rounds", "12", "--every", "4", "--step-seconds", "0.2"]
    assert command.main([*size, "--seeds", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "no restart and equal digests in all rounds: met" in lines
    deaths, joins, failures, rounds = map(int, lines[2].split()[1:5])
    assert deaths >= 1 and joins + deaths <= 4 and failures == 0 and rounds == 12
