"""A run of the study: a coordinator and members in namespaces of their own, and what happens to them."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from bitlane.compress.collectives.namespaces import NetworkNamespaces
from bitlane.compress.elastic.coordinator import Coordinator
from bitlane.errors import BitlaneError

from .events import LEAST, ElasticEvent
from .member import ElasticJob, MemberResult, RoundReport, run_member

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["bitlane_studies.compression.elastic.member"])
EXCHANGES = 3  # of a round, at least
HOURS = 3600.0 * 2  # a run may take


@dataclass
class CrewResult:
    """What happened in a run.

    Attributes
    ----------
    rounds : dict
        The reports of each round by its step, one for each member.
    results : list of MemberResult
        Of the members that made the last step.
    failures : list of str
        Members that ended though nobody killed them.
    deaths, joins : int
    """

    rounds: dict[int, list[RoundReport]] = field(default_factory=dict)
    results: list[MemberResult] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    deaths: int = 0
    joins: int = 0

    @property
    def seconds(self) -> float:
        """From the end of the first round to that of the last."""
        times = {step: max(each.time for each in reports) for step, reports in self.rounds.items()}
        return times[max(times)] - times[min(times)]

    @property
    def unequal(self) -> int:
        """Rounds in which members differ in members or digest, or that not all members have reported."""
        return sum(len({(each.members, each.digest) for each in reports}) > 1 for reports in self.rounds.values())


def run_coordinator(connection: Connection, enter: Callable[[], None], host: str, members: int) -> None:
    """Coordinate in a process; send the port, and at the end why it has ended."""
    enter()
    coordinator = Coordinator(members)
    try:
        connection.send(asyncio.run(coordinator.serve(host, 0, connection.send)))
    except BitlaneError as error:
        connection.send(str(error))


class Crew:
    """A coordinator and members, each in a namespace.

    Parameters
    ----------
    job : ElasticJob
        What the members do.
    members : int
        Members at the begin, and the most.
    namespaces : NetworkNamespaces or None
        One for each member and the coordinator, or the loopback interface.
    events : sequence of ElasticEvent
        What happens.
    """

    def __init__(
        self, job: ElasticJob, members: int, namespaces: NetworkNamespaces | None, events: Sequence[ElasticEvent]
    ):
        self._job, self._namespaces, self._events = job, namespaces, list(events)
        self._rng = random.Random(job.seed)
        self._members: dict[Connection, tuple[str, BaseProcess, int]] = {}  # with the namespace
        self._doomed: set[str] = set()
        self._count = 0
        self.result = CrewResult()
        host = "127.0.0.1" if namespaces is None else namespaces.address(members)
        self._control, there = PROCESSES.Pipe()
        self._coordinator = self._started(run_coordinator, there, members, host, members)
        self._address = f"{host}:{self._control.recv()}"
        for slot in range(members):
            self._join(slot)
        self._began = 0.0  # the end of the first round

    def _started(self, work: Callable[..., None], there: Connection, slot: int, *arguments: Any) -> BaseProcess:
        enter = _stay if self._namespaces is None else partial(self._namespaces.enter, slot)
        process = PROCESSES.Process(target=work, args=(there, enter, *arguments), daemon=True)
        process.start()
        there.close()
        return process

    def _join(self, slot: int) -> None:
        here, there = PROCESSES.Pipe()
        name = f"member-{self._count:03d}"
        self._count += 1
        process = self._started(run_member, there, slot, self._address, name, self._job)
        self._members[here] = (name, process, slot)

    def run(self) -> CrewResult:
        """Let everything happen, until all members have ended."""
        deadline = time.monotonic() + HOURS
        try:
            while self._members:
                if time.monotonic() > deadline:
                    raise BitlaneError(f"the run has not ended after {HOURS:g} seconds")
                self._happen()
                for connection in wait(list(self._members), 0.02):
                    assert isinstance(connection, Connection)
                    self._receive(connection)
            return self.result
        finally:
            for _, process, _ in self._members.values():
                process.kill()
            self._coordinator.kill()

    def _receive(self, connection: Connection) -> None:
        name, process, _ = self._members[connection]
        try:
            message = connection.recv()
        except (EOFError, OSError):
            process.join()
            del self._members[connection]
            if name not in self._doomed and process.exitcode:
                self.result.failures.append(name)
            return
        if isinstance(message, MemberResult):
            self.result.results.append(message)
        else:
            self.result.rounds.setdefault(message.step, []).append(message)
            self._began = self._began or time.monotonic()

    def _happen(self) -> None:
        """Let the next event happen if it is due, by the rounds that counted and the time since the last of them."""
        if not self._events or not self._began:
            return
        done = max(self.result.rounds) // self._job.every
        ended = max(each.time for each in self.result.rounds[done * self._job.every])
        usual = self._job.every * self._job.step_seconds
        if self._events[0].time > done + min(0.95, (time.monotonic() - ended) / usual):
            return
        if self._events[0].kind == "joins":
            used = {slot for name, _, slot in self._members.values() if name not in self._doomed}
            self._join(next(slot for slot in range(self._count) if slot not in used))
            self.result.joins += 1
        elif not self._kill(self._events[0].kind, self.result.rounds[done * self._job.every][0].members):
            return
        del self._events[0]

    def _kill(self, kind: str, members: Sequence[str]) -> bool:
        """Let a member of the last round die, if another one stays; return whether it will."""
        living = [
            (connection, name, process)
            for connection, (name, process, _) in self._members.items()
            if name in members and name not in self._doomed
        ]
        if len(living) < LEAST:
            return False
        connection, name, process = self._rng.choice(living)
        self._doomed.add(name)
        self.result.deaths += 1
        if kind == "dies in training":
            process.kill()
        else:
            connection.send(self._rng.randrange(EXCHANGES))
        return True


def _stay() -> None:
    """Remain in the namespace of this process."""
