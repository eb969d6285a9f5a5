"""The connection of a member to the coordinator: messages in order, and signs of life from a thread."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bitlane.errors import BitlaneError

from .messages import Message, packed, parse_address, unpacked

SIGNS = 5  # of life, in the time after which silence means a loss
RETRY = 0.1  # seconds between attempts to reach the coordinator
FAREWELL = 2.0  # seconds in which the coordinator may end a connection that this side has ended


class VotedOut(BitlaneError):
    """The coordinator has removed this member, or has refused it."""


class CoordinatorLost(BitlaneError):
    """The coordinator cannot be reached."""


@dataclass(frozen=True)
class Formation:
    """A generation that its members form.

    Attributes
    ----------
    generation : int
        Its number.
    members, givers : tuple of (name, host, port)
        The members in order; and those that leave, and hand over what they have not sent.
    source : str
        Who has the state.
    behind : tuple of str
        Members that need it.
    lost : tuple of str
        Members that have ended since the last formation, without handing anything over.
    """

    generation: int
    members: tuple[tuple[str, str, int], ...]
    givers: tuple[tuple[str, str, int], ...]
    source: str
    behind: tuple[str, ...]
    lost: tuple[str, ...]

    @classmethod
    def of(cls, message: Message) -> Formation:
        """Return the formation of a message."""
        members, givers = (
            tuple((name, host, port) for name, host, port in message[key]) for key in ("members", "givers")
        )
        behind, lost = tuple(message["behind"]), tuple(message["lost"])
        return cls(message["generation"], members, givers, message["source"], behind, lost)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members, in order."""
        return tuple(each[0] for each in self.members)


class MembershipChanged(Exception):
    """The members form another generation: what is in progress does not count."""

    def __init__(self, formation: Formation):
        super().__init__(f"generation {formation.generation}")
        self.formation = formation


class Membership:
    """A connection to the coordinator.

    Parameters
    ----------
    coordinator : str
        Its address, HOST:PORT.
    patience : float
        Seconds in which the coordinator must be reached.

    Attributes
    ----------
    host : str
        The address of this machine that the coordinator sees.
    wake : socket.socket
        Can be read when `is_interrupted` may have changed.

    Raises
    ------
    DataError
        If the address has another form.
    CoordinatorLost
        If it cannot be reached.
    """

    def __init__(self, coordinator: str, patience: float):
        self._coordinator, self._patience = coordinator, patience
        self._socket = self._reached(parse_address(coordinator))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.host = self._socket.getsockname()[0]
        self.wake, self._waker = socket.socketpair()
        self._silence = patience
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._messages: deque[dict[str, Any]] = deque()
        self._closing, self._lost = False, ""
        self._thread = threading.Thread(target=self._listen, name="bitlane-member", daemon=True)

    def _reached(self, address: tuple[str, int]) -> socket.socket:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return socket.create_connection(address, max(RETRY, deadline - time.monotonic()))
            except OSError as error:
                if time.monotonic() > deadline:
                    raise CoordinatorLost(
                        f"no coordinator at {self._coordinator} within {self._patience:g} seconds "
                        f"({error.strerror or error}): start `python -m bitlane.compress.elastic` there; this member "
                        "keeps its state"
                    ) from error
                time.sleep(RETRY)

    def join(self, **hello: Any) -> Formation:
        """Ask to join, and wait for the first formation; raise VotedOut if the coordinator refuses."""
        self.send("hello", host=self.host, **hello)
        self._thread.start()
        return Formation.of(self._next("form"))

    def send(self, kind: str, **fields: Any) -> None:
        """Send a message. Errors of the connection are left to `wait`."""
        with self._sending, suppress(OSError):
            self._socket.sendall(packed(kind, fields))

    def wait(self, *kinds: str) -> dict[str, Any]:
        """Return the next message, which has one of these kinds.

        Raises
        ------
        MembershipChanged
            If it is a formation.
        VotedOut
            If the coordinator has removed this member.
        CoordinatorLost
            If the connection has ended.
        """
        return self._next(*kinds)

    def _next(self, *kinds: str) -> dict[str, Any]:
        with self._changed:
            self._changed.wait_for(lambda: self._messages or self._lost)
            if not self._messages:
                raise CoordinatorLost(self._lost)
            message = self._messages.popleft()
        kind = message["kind"]
        if kind == "out":
            raise VotedOut(f"the coordinator has removed this member: {message['reason']}")
        if kind in kinds:
            return message
        if kind == "form":
            raise MembershipChanged(Formation.of(message))
        raise BitlaneError(f"the coordinator sent {kind!r}; {' or '.join(kinds)} was due")

    @property
    def is_interrupted(self) -> bool:
        """Whether something has come that ends an exchange: a formation, an exclusion, the loss of the coordinator."""
        with self._changed:
            return bool(self._lost) or any(each["kind"] in ("form", "out") for each in self._messages)

    def close(self) -> None:
        """End the connection and the thread. A second call does nothing."""
        for how in (socket.SHUT_WR, socket.SHUT_RDWR):  # first let the coordinator read what was sent, and answer
            with suppress(OSError):
                self._socket.shutdown(how)
            if self._thread.is_alive():
                self._thread.join(FAREWELL)
            self._closing = True
        for each in (self._socket, self.wake, self._waker):
            each.close()

    def _listen(self) -> None:
        received, heard, told = b"", time.monotonic(), 0.0
        why = f"the coordinator at {self._coordinator} has ended"
        while not self._closing:
            period, now = self._silence / SIGNS, time.monotonic()
            if now - told >= period / 2:
                self.send("alive")
                told = now
            self._socket.settimeout(period / 2)
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                if time.monotonic() - heard > self._silence:
                    why = f"the coordinator at {self._coordinator} was silent for {self._silence:g} seconds"
                    break
                continue
            except OSError:
                break
            if not data:
                break
            heard = time.monotonic()
            *lines, received = (received + data).split(b"\n")
            try:
                self._keep([unpacked(line) for line in lines])
            except BitlaneError as error:
                why = str(error)
                break
        with self._changed:
            self._lost = why
            self._changed.notify_all()
        self._wake()

    def _keep(self, messages: Sequence[dict[str, Any]]) -> None:
        with self._changed:
            for each in messages:
                if each["kind"] == "welcome":
                    self._silence = float(each["silence"])
                elif each["kind"] != "alive":
                    self._messages.append(each)
            self._changed.notify_all()
        if any(each["kind"] in ("form", "out") for each in messages):
            self._wake()

    def _wake(self) -> None:
        with suppress(OSError):
            self._waker.send(b"x", socket.MSG_DONTWAIT)
