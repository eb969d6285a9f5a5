"""The decisions of the coordinator: random events against the rules that members rely on, and each case once."""

from __future__ import annotations

import random

import pytest

from bitlane.compress.elastic.roster import ATTEMPTS, Phase, Roster, Seat
from bitlane.errors import DataError


class Group:
    """Members as the roster sees them: each answers what it is sent, when it is let."""

    def __init__(self, needed):
        self.roster, self.inboxes, self.alive = Roster(needed), {}, set()
        self.steps, self.generations, self.roles, self.committed, self.out = {}, {}, {}, {}, {}

    def join(self, name, step=0, settings="one", state=None, earlier=()):
        self.inboxes[name], self.steps[name], self.generations[name] = [], step, 0
        self.alive.add(name)
        self.roster.join(Seat(name, ("host", 1), settings, step, state or f"fresh {name}"), earlier)
        self.deliver()

    def deliver(self):
        for name, kind, fields in self.roster.outbox:
            if name in self.alive:
                self.inboxes[name].append((kind, fields))
                if kind in ("out", "released"):
                    self.alive.discard(name)
                    self.out[name] = fields.get("reason", kind)
        self.roster.outbox.clear()

    def kinds(self, name):
        return [kind for kind, _ in self.inboxes[name]]

    def lose(self, name):
        self.alive.discard(name)
        self.roster.lose(name)
        self.deliver()

    def answer(self, name, ok=True, state=None, accused=()):
        """Let a member read its next message and answer it; return its kind."""
        if not self.inboxes[name]:
            return None
        kind, fields = self.inboxes[name].pop(0)
        reply = {"ok": ok, "accused": accused}
        if kind == "form":
            self.generations[name], self.roles[name] = fields["generation"], fields
            if name in fields["behind"]:
                self.steps[name] = self.roster.step
            self.roster.present(name, fields["generation"])
            self.roster.formed(name, fields["generation"], {**reply, "state": state or f"formed {self.roster.step}"})
        elif kind == "average":
            self.roster.voted(name, self.generations[name], {**reply, "state": state or f"round {fields['step']}"})
        elif kind == "commit":
            self.steps[name] = fields["step"]
            self.committed.setdefault(fields["step"], set()).add(name)
        self.deliver()
        return kind

    def arrive(self, name, step=None):
        step = self.steps[name] + 1 if step is None else step
        self.roster.arrived(name, self.generations[name], {"step": step})
        self.deliver()

    def settle(self, *names):
        """Let members answer until nothing is left."""
        names = names or tuple(self.inboxes)
        while any(self.inboxes[name] for name in names if name in self.alive):
            for name in names:
                if name in self.alive:
                    self.answer(name)

    def round(self, *names):
        for name in names:
            self.arrive(name)
        self.settle(*names)


def started(*names):
    group = Group(len(names))
    for name in names:
        group.join(name)
    group.settle()
    assert group.roster.phase is Phase.TRAINING
    return group


def test_it_waits_for_the_first_members_and_orders_them_by_name():
    group = Group(3)
    group.join("c")
    group.join("a")
    assert group.kinds("a") == [] and group.roster.phase is Phase.GATHERING
    group.join("b")
    form = group.inboxes["b"][0][1]
    assert [each[0] for each in form["members"]] == ["a", "b", "c"] and form["source"] == "a"
    assert form["behind"] == ["b", "c"] and form["givers"] == form["lost"] == []


def test_equal_starts_need_no_handover():
    group = Group(2)
    group.join("a", state="same")
    group.join("b", state="same")
    assert group.inboxes["a"][0][1]["behind"] == []


def test_the_newest_state_is_the_source():
    group = Group(3)
    for name, step in (("a", 0), ("b", 300), ("c", 200)):
        group.join(name, step)
    form = group.inboxes["a"][0][1]
    assert form["source"] == "b" and form["behind"] == ["a", "c"]


def test_a_round_counts_when_all_have_voted():
    group = started("a", "b")
    group.arrive("a")
    assert group.kinds("a") == []
    group.arrive("b")
    group.answer("a")
    assert group.kinds("a") == [] and group.roster.step == 0
    group.answer("b")
    assert group.kinds("a") == group.kinds("b") == ["commit"] and group.roster.step == 1


@pytest.mark.parametrize("when", ["training", "arrived", "averaging", "voted"])
def test_a_loss_forms_the_rest_at_once(when):
    group = started("a", "b", "c")
    for name in {"training": "", "arrived": "ab", "averaging": "abc", "voted": "abc"}[when]:
        group.arrive(name)
    if when == "voted":
        group.answer("a")
    group.lose("c")
    form = group.inboxes["a"][-1][1]
    assert [each[0] for each in form["members"]] == ["a", "b"] and form["lost"] == ["c"] and form["behind"] == []
    assert group.roster.step == 0
    group.settle()
    group.round("a", "b")
    assert group.roster.step == 1 and group.committed == {1: {"a", "b"}}


def test_a_late_vote_of_an_earlier_generation_does_not_count():
    group = started("a", "b", "c")
    for name in "abc":
        group.arrive(name)
    group.answer("a")
    group.answer("b")
    group.lose("c")
    group.roster.voted("a", 1, {"ok": True, "state": "round 1"})
    assert group.roster.phase is Phase.FORMING and group.roster.step == 0


def test_others_join_only_after_a_round_that_counted():
    group = started("a", "b", "x")
    group.join("c")
    group.arrive("a")
    group.lose("x")
    assert [each[0] for each in group.inboxes["a"][-1][1]["members"]] == ["a", "b"]
    group.settle()
    assert group.kinds("c") == []
    group.round("a", "b")
    group.settle()
    assert group.roles["a"]["generation"] == 3
    assert [each[0] for each in group.roles["c"]["members"]] == ["a", "b", "c"] and group.roles["c"]["behind"] == ["c"]


def test_one_that_joins_and_dies_leaves_the_others():
    group = started("a", "b")
    group.join("c")
    group.arrive("a")
    group.arrive("b")
    for _ in range(2):
        group.answer("a")
        group.answer("b")
    assert group.roster.phase is Phase.FORMING
    group.lose("c")
    group.settle()
    group.round("a", "b")
    assert group.committed[2] == {"a", "b"}


def test_one_that_leaves_hands_over_when_all_others_have_arrived():
    group = started("a", "b", "c")
    group.roster.leave("b")
    group.arrive("a")
    assert group.kinds("c") == []
    group.arrive("c")
    form = group.inboxes["b"][0][1]
    assert [each[0] for each in form["givers"]] == ["b"] and [each[0] for each in form["members"]] == ["a", "c"]
    for name in "abc":
        group.answer(name)
    assert group.kinds("b") == ["released"] and group.kinds("a") == ["go"]
    group.settle("a", "c")
    group.round("a", "c")
    assert group.committed[1] == {"a", "c"} and group.roles["a"]["lost"] == []


def test_the_last_that_leaves_hands_over_to_one_that_waits():
    group = started("a")
    group.join("b")
    group.roster.leave("a")
    group.deliver()
    form = group.inboxes["b"][0][1]
    assert form["behind"] == ["b"] and form["source"] == "a"
    group.settle()
    assert group.out == {"a": "released"} and group.roster.members == ["b"] and not group.roster.ended


def test_all_that_leave_end_the_training():
    group = started("a", "b")
    group.roster.leave("a")
    group.roster.leave("b")
    group.deliver()
    assert group.out == {"a": "released", "b": "released"} and group.roster.ended == "all members have left"
    assert not group.roster.state_lost


def test_the_end_of_all_members_is_told_by_its_kind():
    for how, is_lost in (("lose", True), ("end", False)):
        group = started("a", "b")
        group.round("a", "b")
        for name in "ab":
            getattr(group.roster, how)(name)
        assert bool(group.roster.ended) and group.roster.state_lost is is_lost


def test_the_state_is_lost_with_the_last_that_has_it():
    group = started("a")
    group.join("b")
    group.round("a")
    assert group.roster.phase is Phase.FORMING or group.roster.members == ["a", "b"]
    group = started("a")
    group.join("b")
    group.arrive("a")
    group.answer("a")
    group.lose("a")
    assert group.roster.state_lost and group.out["b"].startswith("all members with the state of step 1 have ended")


def test_before_the_first_round_nothing_is_lost():
    group = started("a", "b")
    group.lose("a")
    group.lose("b")
    assert not group.roster.ended and group.roster.phase is Phase.GATHERING
    group.join("c")
    group.join("d")
    group.settle()
    assert group.roster.members == ["c", "d"]


def test_other_bits_are_voted_out():
    group = started("a", "b", "c")
    for name in "abc":
        group.arrive(name)
    for name in "abc":
        group.answer(name, state="odd" if name == "b" else "even")
    assert list(group.out) == ["b"] and "2 of 3 members" in group.out["b"]
    group.settle("a", "c")
    assert group.roster.phase is Phase.TRAINING and group.roster.members == ["a", "c"] and group.roster.step == 0


def test_without_a_majority_all_are_out():
    group = started("a", "b")
    group.round("a", "b")
    group.arrive("a")
    group.arrive("b")
    group.answer("a", state="odd")
    group.answer("b", state="even")
    assert set(group.out) == {"a", "b"} and "no majority" in group.out["a"]


def test_a_member_that_others_cannot_reach_is_voted_out_after_some_attempts():
    group = started("a", "b", "c")
    for _ in range(ATTEMPTS):
        assert group.out == {}
        for name in "abc":
            group.arrive(name)
        for name in "abc":
            group.answer(name, ok=name == "b", accused=["b"])
        group.settle()
    assert list(group.out) == ["b"] and group.roster.members == ["a", "c"]


def test_a_member_that_fails_and_accuses_nobody_is_out_itself():
    group = started("a", "b")
    for _ in range(ATTEMPTS):
        group.arrive("a")
        group.arrive("b")
        group.answer("a", ok=False)
        group.answer("b")
        group.settle()
    assert list(group.out) == ["a"]


def test_a_member_that_counts_other_steps_is_voted_out():
    group = started("a", "b", "c")
    group.arrive("a", 3)
    group.arrive("b", 2)
    group.arrive("c", 3)
    assert group.out == {"b": "it averages after step 2, others after step 3"}


def test_names_and_settings_are_checked():
    group = started("a")
    with pytest.raises(DataError, match="the name 'a' is in use"):
        group.join("a")
    with pytest.raises(DataError, match="members have different settings: a has one, b has two"):
        group.roster.join(Seat("b", ("host", 1), "two", 0, "x"))


def test_a_new_coordinator_waits_for_the_members_of_the_old_one():
    group = Group(2)
    for name in "ab":
        group.join(name, 30, state="same", earlier="abc")
        assert group.roster.phase is Phase.GATHERING and group.roster.expects_return
    group.join("c", 20, earlier="abc")
    assert group.inboxes["a"][0][1]["behind"] == ["c"]
    group.settle()
    assert group.roster.step == 30


def test_it_names_those_that_others_wait_for():
    group = started("a", "b", "c")
    assert group.roster.awaited() == []
    group.arrive("b")
    assert group.roster.awaited() == ["a", "c"]
    group.lose("c")
    assert group.roster.awaited() == []
    group.roster.present("a", 2)
    assert group.roster.awaited() == ["b"]


def test_random_events_keep_the_rules(seed):
    """A round counts for all members of its generation or for none of those alive; nobody waits for ever."""
    rng = random.Random(seed)
    group, number = Group(2), 0
    for _ in range(400):
        names = sorted(group.alive)
        event = rng.random()
        if len(names) < 5 and event < 0.08:
            number += 1
            group.join(f"m{number}")
        elif len(names) > 1 and event < 0.12:
            group.lose(rng.choice(names))
        elif len(names) > 1 and event < 0.14:
            group.roster.leave(rng.choice(names))
            group.deliver()
        elif names:
            name = rng.choice(names)
            seat = group.roster.seats.get(name)
            if group.inboxes[name]:
                group.answer(name, ok=rng.random() > 0.02)
            elif group.roster.phase is Phase.TRAINING and name in group.roster.members and not seat.is_leaving:
                group.arrive(name)
        roster = group.roster
        if roster.ended:
            break
        assert roster.members == sorted(roster.members) and set(roster.members) <= roster.seats.keys()
        assert all(roster.seats[name].step <= roster.step for name in roster.members)
    before = group.roster.step
    for _ in range(3):
        group.settle()
        waiting = [name for name in group.roster.members if not group.roster.seats[name].is_leaving]
        for name in waiting:
            if name in group.alive and group.roster.phase is Phase.TRAINING and name in group.roster.seats:
                group.arrive(name)
    group.settle()
    assert group.roster.ended or not group.roster.members or group.roster.step > before
    for name, step in group.steps.items():
        if name in group.roster.members and group.roster.phase is Phase.TRAINING:
            assert step == group.roster.step
