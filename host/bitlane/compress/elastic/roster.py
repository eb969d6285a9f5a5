"""Who belongs to a training, and whether a round counts: the decisions of the coordinator, without network and clock.

A *generation* is a membership with a number. Its members form it, train, arrive at a round, average, and vote. A round
counts if all of them vote for the same bits (two-phase commit). If a member is lost, the others form the next
generation and repeat the round. Members join and leave after a round that counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from typing import Any

from bitlane.errors import DataError

from .messages import Message

ATTEMPTS = 3  # failures in a row of the same members, before one of them is voted out


class Phase(Enum):
    """What the members of a generation do."""

    GATHERING = "gathering"
    FORMING = "forming"
    TRAINING = "training"
    AVERAGING = "averaging"


@dataclass
class Seat:
    """A process that has asked to join.

    Attributes
    ----------
    name : str
        Unique; members are ordered by it.
    address : tuple of str and int
        Where it accepts connections of other members.
    settings : str
        What must be equal in all members, one setting a line.
    step : int
        Inner steps of its state.
    state : str
        Digest of its state.
    """

    name: str
    address: tuple[str, int]
    settings: str
    step: int
    state: str
    reply: Message | None = None  # in this phase
    is_present: bool = False  # it has begun to form the generation
    is_leaving: bool = False


class Roster:
    """The seats, the phase, and the messages that follow from each event.

    Parameters
    ----------
    needed : int
        Members with which the training begins.

    Attributes
    ----------
    outbox : list of tuple
        Name, kind and fields of messages to send; the caller empties it. After "out" or "released" the connection ends.
    ended : str
        Why the training has ended; empty while it goes on.
    state_lost : bool
        Whether it has ended because all members with its state are gone.
    """

    def __init__(self, needed: int):
        self.needed, self.generation, self.step = needed, 0, 0
        self.phase = Phase.GATHERING
        self.seats: dict[str, Seat] = {}
        self.members: list[str] = []  # of the generation, in order
        self.givers: list[str] = []  # those that leave, and hand over their residuals
        self.outbox: list[tuple[str, str, dict[str, Any]]] = []
        self.ended, self.state_lost = "", False
        self._expected: set[str] = set()  # members of an earlier coordinator
        self._lost: list[str] = []  # since the last formation
        self._failures = 0
        self._accused: Counter[str] = Counter()
        self._round = 0  # inner steps at the round that is averaged

    # --- events
    def join(self, seat: Seat, earlier_members: Iterable[str] = ()) -> None:
        """Add a process: it becomes a member in the next formation.

        Parameters
        ----------
        seat : Seat
            The process.
        earlier_members : iterable of str
            The members of its last generation, which a new coordinator waits for.

        Raises
        ------
        DataError
            If its name is in use, or its settings differ.
        """
        if seat.name in self.seats:
            raise DataError(f"the name {seat.name!r} is in use: give each member another name")
        for other in self.seats.values():
            if other.settings != seat.settings:
                raise DataError(_difference(other, seat))
        self.seats[seat.name] = seat
        self._expected.update(earlier_members)
        if self.phase is Phase.GATHERING:
            returned = bool(self._expected) and self._expected <= self.seats.keys()
            if returned or (not self._expected and len(self.seats) >= self.needed):
                self.begin()

    def begin(self) -> None:
        """Form the first generation with the processes that are here."""
        if self.phase is Phase.GATHERING and self.seats:
            self.step = max(each.step for each in self.seats.values())
            self._form(with_others=True)

    def lose(self, name: str) -> None:
        """Remove a process that has ended or hangs. The members that remain form the next generation."""
        if self.seats.pop(name, None) is None or name not in (*self.members, *self.givers):
            return
        self._lost.append(name)
        self._continue_without(name)

    def end(self, name: str) -> None:
        """Remove a member that has finished its training."""
        if self.seats.pop(name, None) is not None and name in (*self.members, *self.givers):
            self._continue_without(name)

    def leave(self, name: str) -> None:
        """Let a member leave at the next round, and hand over what it has not sent."""
        if name in self.seats and not self.seats[name].is_leaving:
            self.seats[name].is_leaving = True
            if name not in self.members:
                self._release(name)
            elif self.phase is Phase.TRAINING:
                self._begin_round_when_all_arrived()

    def present(self, name: str, generation: int) -> None:
        """Note that a member has reached the formation of a generation."""
        if self._counts(name, generation, Phase.FORMING):
            self.seats[name].is_present = True

    def formed(self, name: str, generation: int, message: Message) -> None:
        """Take a member's result of a formation: "ok", the digest "state" of what all must have, "accused" names."""
        if self._counts(name, generation, Phase.FORMING):
            self.seats[name].reply = message
            self._when_all_replied([*self.members, *self.givers], self._start_training)

    def arrived(self, name: str, generation: int, message: Message) -> None:
        """Take a member's arrival at the round after "step"."""
        if self._counts(name, generation, Phase.TRAINING):
            self.seats[name].reply = message
            self._begin_round_when_all_arrived()

    def voted(self, name: str, generation: int, message: Message) -> None:
        """Take a member's vote on a round: as in `formed`, where the digest is that of the result of the round."""
        if self._counts(name, generation, Phase.AVERAGING):
            self.seats[name].reply = message
            self._when_all_replied(self.members, self._commit)

    def vote_out(self, name: str, reason: str) -> None:
        """Remove a process and tell it why."""
        if name in self.seats:
            self._send([name], "out", reason=reason)
            self.lose(name)

    def awaited(self) -> list[str]:
        """Return the members that some others wait for; none if no member has reached this point."""
        if self.phase is Phase.GATHERING:
            return []
        due = [*self.members, *self.givers] if self.phase is Phase.FORMING else self._remaining()
        here = [name for name in due if self.seats[name].reply is not None or self.seats[name].is_present]
        return [name for name in due if name not in here] if here else []

    @property
    def expects_return(self) -> bool:
        """Whether members of an earlier coordinator have not come back yet."""
        return bool(self._expected - self.seats.keys())

    # --- consequences
    def _counts(self, name: str, generation: int, phase: Phase) -> bool:
        return generation == self.generation and phase is self.phase and name in (*self.members, *self.givers)

    def _remaining(self) -> list[str]:
        return [name for name in self.members if not self.seats[name].is_leaving]

    def _continue_without(self, name: str) -> None:
        self.members = [each for each in self.members if each != name]
        self.givers = [each for each in self.givers if each != name]
        self._failures, self._accused = 0, Counter()
        present = [*self.members, *self.givers]
        if any(self.seats[each].step == self.step for each in present):
            self._form()
        elif not self._lost:
            self._end("all members have finished", False)
        elif self.step:
            self._end(f"all members with the state of step {self.step} have ended: start again from a checkpoint", True)
        else:
            self.phase, self.members, self.givers = Phase.GATHERING, [], []
            if len(self.seats) >= self.needed:
                self.begin()

    def _form(self, with_others: bool = False) -> None:
        """Send the next generation to its members, and to all that wait if no member is within a round."""
        old = [*self.members, *self.givers]
        stay = [name for name in old if not self.seats[name].is_leaving]
        new = self.seats if with_others or not stay else stay
        self.members = sorted(name for name in new if not self.seats[name].is_leaving)
        self.givers = sorted(name for name in old if self.seats[name].is_leaving)
        if not self.members:
            for name in self.givers:
                self._release(name)
            self._end("all members have left", False)
            return
        self.generation, self.phase = self.generation + 1, Phase.FORMING
        present = [*self.members, *self.givers]
        source = next(name for name in (*old, *present) if self.seats[name].step == self.step)
        for name in present:
            self.seats[name].reply, self.seats[name].is_present = None, False
        self._send(
            present,
            "form",
            generation=self.generation,
            members=[[name, *self.seats[name].address] for name in self.members],
            givers=[[name, *self.seats[name].address] for name in self.givers],
            source=source,
            behind=[name for name in self.members if self.seats[name].state != self.seats[source].state],
            lost=self._lost,
        )
        self._lost = []

    def _when_all_replied(self, names: list[str], proceed: Callable[[str], None]) -> None:
        """Proceed with the state that all report; form anew if one failed; vote members with other bits out."""
        replies = {name: self.seats[name].reply for name in names}
        given = {name: reply for name, reply in replies.items() if reply is not None}
        if len(given) < len(names):
            return
        if not all(reply["ok"] for reply in given.values()):
            self._try_again(given)
            return
        states = Counter(reply["state"] for reply in given.values()).most_common()
        if len(states) == 1:
            proceed(states[0][0])
            return
        has_majority = states[0][1] > states[1][1]
        for name, reply in given.items():
            if not has_majority or reply["state"] != states[0][0]:
                most = f"{states[0][1]} of {len(names)} members" if has_majority else "no majority of the members"
                self.vote_out(name, f"its bits after step {self.step} are not those of {most}")

    def _try_again(self, replies: Mapping[str, Message]) -> None:
        """Form the same members anew; after some failures in a row without the one that most of them accuse."""
        self._failures += 1
        for name, reply in replies.items():
            if not reply["ok"]:
                self._accused.update(each for each in reply.get("accused") or [name] if each in self.seats)
        if self._failures < ATTEMPTS:
            self._form()
            return
        most = max(self._accused.values())
        name = max(name for name, count in self._accused.items() if count == most)
        self.vote_out(name, f"other members did not reach it in {ATTEMPTS} attempts")

    def _start_training(self, state: str) -> None:
        self._set_state(self.step, state)
        self._send(self.members, "go", generation=self.generation)
        for name in self.givers:
            self._release(name)
        self.givers = []
        self._begin_round_when_all_arrived()  # with none left to arrive, if all leave

    def _begin_round_when_all_arrived(self) -> None:
        remaining = self._remaining()
        arrivals = [reply for name in remaining if (reply := self.seats[name].reply) is not None]
        if len(arrivals) < len(remaining):
            return
        steps = {reply["step"] for reply in arrivals}
        if len(steps) > 1:  # the fewest steps are those of members that count otherwise
            for name in remaining:
                reply = self.seats[name].reply
                if reply is not None and reply["step"] != max(steps):
                    self.vote_out(name, f"it averages after step {reply['step']}, others after step {max(steps)}")
        elif len(remaining) < len(self.members):
            self._form()
        else:
            self.phase = Phase.AVERAGING
            self._round = steps.pop()
            for name in self.members:
                self.seats[name].reply = None
            self._send(self.members, "average", generation=self.generation, step=self._round)

    def _commit(self, state: str) -> None:
        self._failures, self._accused = 0, Counter()
        self._set_state(self._round, state)
        others_wait = len(self.seats) > len(self.members)
        self._send(self.members, "commit", generation=self.generation, step=self.step, change_follows=others_wait)
        if others_wait:
            self._form(with_others=True)

    def _set_state(self, step: int, state: str) -> None:
        self.step, self.phase = step, Phase.TRAINING
        for name in self.members:
            seat = self.seats[name]
            seat.step, seat.state, seat.reply, seat.is_present = step, state, None, False

    def _release(self, name: str) -> None:
        self._send([name], "released")
        del self.seats[name]

    def _end(self, reason: str, state_lost: bool) -> None:
        self.ended, self.state_lost = reason, state_lost
        self._send(list(self.seats), "out", reason=reason)

    def _send(self, names: Iterable[str], kind: str, **fields: Any) -> None:
        self.outbox += [(name, kind, fields) for name in names]


def _difference(first: Seat, other: Seat) -> str:
    pairs = zip_longest(first.settings.splitlines(), other.settings.splitlines(), fillvalue="no such line")
    own, others = next((b, a) for a, b in pairs if a != b)
    return f"members have different settings: {first.name} has {others}, {other.name} has {own}"
