"""A member's part in the memberships of a training: it joins, forms generations, follows changes, and leaves."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from bitlane.errors import BitlaneError

from ..collectives.transport import RankFailed, Transport
from ..ddp.steps import StepRunner
from ..local.fragments import Fragment
from .handover import MemberState
from .membership import RETRY, CoordinatorLost, Formation, Membership, MembershipChanged, VotedOut
from .mesh import Mesh, MeshTransport, Unreached
from .settings import ElasticStats, MemberSettings

LOG = logging.getLogger(__name__)


class Participant:
    """A process and its place in the membership.

    Parameters
    ----------
    coordinator : str
        Its address, HOST:PORT.
    settings : MemberSettings
        The settings of this member.
    text : str
        What must be equal in all members, one setting a line.
    state : MemberState
        The state, which moves with the membership.
    stats : ElasticStats
        Receives what happens.
    runner : callable
        Returns a `StepRunner` for a transport, a number and a fragment.

    Attributes
    ----------
    name : str
        The name of this member.
    names : tuple of str
        The members of the generation, in the order of their ranks.
    generation : int
        Its number; 0 before the first.
    transport : MeshTransport or None
        The connection to the others; None between generations.
    change_follows : bool
        Whether the last message announced another generation.
    has_left : bool
        Whether this process is no member any more.
    """

    def __init__(
        self,
        coordinator: str,
        settings: MemberSettings,
        text: str,
        state: MemberState,
        stats: ElasticStats,
        runner: Callable[[Transport, int, Fragment], StepRunner],
    ):
        self.name, self.generation = settings.own_name, 0
        self.names: tuple[str, ...] = ()
        self.transport: MeshTransport | None = None
        self.has_left = self.change_follows = False
        self._coordinator, self._settings, self._text = coordinator, settings, text
        self._state, self._stats, self._runner = state, stats, runner
        self._member: Membership | None = None
        self._mesh: Mesh | None = None

    def send(self, kind: str, **fields: Any) -> None:
        """Send a message about this generation to the coordinator."""
        assert self._member is not None
        self._member.send(kind, generation=self.generation, **fields)

    def wait(self, *kinds: str) -> str:
        """Return the kind of the next message, one of these; errors as in `Membership.wait`."""
        assert self._member is not None
        message = self._member.wait(*kinds)
        self.change_follows = bool(message.get("change_follows"))
        kind: str = message["kind"]
        return kind

    def await_change(self) -> None:
        """Form the generation that follows a round at once, so that the others of it need not catch up."""
        try:
            self.wait()
        except MembershipChanged as change:
            self.follow(change.formation)

    def join(self) -> None:
        """Ask the coordinator for a place, and form the first generation with this member.

        Raises
        ------
        VotedOut
            If the coordinator refuses.
        CoordinatorLost
            If it is not reached.
        """
        self._member = Membership(self._coordinator, self._settings.patience)
        if self._mesh is None:
            self._mesh = Mesh(self._member.host)
        state = self._state.digest(with_tensors=self._state.step == 0)
        own = {"name": self.name, "port": self._mesh.port, "settings": self._text, "members": self.names}
        self.follow(self._member.join(**own, step=self._state.step, state=state))

    def rejoin(self, reason: BitlaneError) -> None:
        """Join again after this member or its coordinator was lost, within the patience for a coordinator.

        Raises
        ------
        VotedOut, CoordinatorLost
            If that fails, or `rejoin` is False and the coordinator has removed this member.
        """
        self.leave_generation()
        if isinstance(reason, VotedOut) and not self._settings.rejoin:
            raise reason
        LOG.warning("%s joins again: %s", self.name, reason)
        deadline = monotonic() + self._settings.patience
        while True:
            assert self._member is not None
            self._member.close()
            try:
                self.join()
                break
            except (VotedOut, CoordinatorLost):  # it has not noticed the end of the old connection yet, or ends itself
                if monotonic() > deadline:
                    raise
                sleep(RETRY)
        self._stats.rejoined += 1

    def follow(self, formation: Formation) -> None:
        """Form a generation, or the one that comes after it if its membership changes meanwhile."""
        while True:
            try:
                self._enter(formation)
                return
            except MembershipChanged as change:
                formation = change.formation

    def _enter(self, formation: Formation) -> None:
        assert self._mesh is not None and self._member is not None
        self.leave_generation()
        self.generation = formation.generation
        self.send("present")
        self._note_lost(formation)
        try:
            transport = self._mesh.connect(formation, self.name, self._member, self._settings.timeout)
            self.transport = transport
            taken = self._state.hand_over(formation, self.name, transport)
        except RankFailed as error:
            self.report_failure("formed", error)
        self.send("formed", ok=True, state=self._state.digest())
        if self.wait("go", "released") == "released":
            self.disconnect()
            return
        transport.keep(len(formation.names))
        self._state.move(transport, self.name in formation.behind, taken, self._runner)
        self.names = formation.names
        self._stats.generations += 1

    def report_failure(self, kind: str, failure: RankFailed) -> None:
        """Tell the coordinator that members were not reached; raise the change of the membership that follows."""
        self.leave_generation()
        self.send(kind, ok=False, accused=failure.names if isinstance(failure, Unreached) else ())
        self.wait()

    def _note_lost(self, formation: Formation) -> None:
        self._stats.lost += formation.lost
        told = "; what it had not sent is lost" if formation.lost and self._state.keeps_residuals else ""
        for name in formation.lost:
            LOG.warning("%s has ended%s", name, told)

    def leave_generation(self) -> None:
        """Close the connections to the other members."""
        if self.transport is not None:
            self.count_bytes()
            self.transport.close()
            self.transport = None

    def count_bytes(self) -> None:
        """Add what was sent since the last call to the statistics."""
        if self.transport is not None:
            self._stats.bytes_sent += self.transport.sent
            self.transport.sent = 0

    def leave(self) -> None:
        """Leave, and hand over what this member has not sent, with the next round of the others."""
        self.send("leave")
        try:
            while not self.has_left:
                try:
                    self.wait("released")
                    break
                except MembershipChanged as change:
                    self.follow(change.formation)
        finally:
            self.disconnect()

    def disconnect(self) -> None:
        """Free all connections and the thread."""
        self.has_left = True
        self.leave_generation()
        for each in (self._member, self._mesh):
            if each is not None:
                each.close()
