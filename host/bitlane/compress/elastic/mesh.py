"""The connections between the members of a generation, made anew for each: nothing of an earlier one can arrive.

They are plain TCP sockets and no process group of torch, because an exchange of gloo cannot be interrupted: with one
stopped member, all others would wait for the time limit of an exchange, which must be long for large models.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import Tensor

from bitlane.errors import BitlaneError

from ..collectives.transport import RankFailed
from .membership import Formation, Membership

GREETING = 16  # bytes: the generation, and the place of the member that connects
GREETING_SECONDS = 10.0
BACKLOG = 1024


class Unreached(RankFailed):
    """Members that this one did not reach, or that have ended.

    Attributes
    ----------
    names : tuple of str
        Their names; empty if the membership has changed.
    """

    def __init__(self, message: str, names: Sequence[str] = ()):
        super().__init__(message)
        self.names = tuple(names)


class Mesh:
    """The port at which a member accepts connections of others, in all generations.

    Parameters
    ----------
    host : str
        The address of this machine.

    Attributes
    ----------
    port : int
        The port, chosen by the system.
    """

    def __init__(self, host: str):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family, backlog=BACKLOG)
        self.port: int = self._listener.getsockname()[1]
        self._early: dict[tuple[int, int], socket.socket] = {}  # of later generations, by generation and place

    def connect(self, formation: Formation, name: str, membership: Membership, timeout: float) -> MeshTransport:
        """Connect to all others of a formation.

        Parameters
        ----------
        formation : Formation
            Its members, then its givers, have the ranks of the transport.
        name : str
            The name of this member.
        membership : Membership
            Interrupts the connection.
        timeout : float
            Seconds without progress, in an exchange, after which another member counts as lost.

        Raises
        ------
        Unreached
            If a member cannot be reached, or the membership has changed.
        """
        others = [*formation.members, *formation.givers]
        names = [each[0] for each in others]
        place, generation = names.index(name), formation.generation
        for key in [key for key in self._early if key[0] < generation]:
            self._early.pop(key).close()
        transport = MeshTransport(names, place, membership, timeout)
        try:
            for rank, (other, host, port) in enumerate(others[:place]):
                try:
                    connection = socket.create_connection((host, port), timeout)
                    connection.sendall(generation.to_bytes(8, "little") + place.to_bytes(8, "little"))
                except OSError as error:
                    text = f"{name} cannot connect to {other} at {host}:{port}: {error.strerror or error}"
                    raise Unreached(text, [other]) from error
                transport.add(rank, connection)
            for rank in range(place + 1, len(others)):
                transport.add(rank, self._accepted(generation, rank, membership))
        except BaseException:
            transport.close()
            raise
        return transport

    def _accepted(self, generation: int, rank: int, membership: Membership) -> socket.socket:
        """Return the connection of a rank. It waits for a member that has not finished its steps yet."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(membership.wake, selectors.EVENT_READ)
            while (generation, rank) not in self._early:
                if membership.is_interrupted:
                    raise Unreached("the membership has changed")
                for key, _ in selector.select():
                    if key.fileobj is self._listener:
                        self._accept_next(generation)
                    else:
                        membership.wake.recv(1 << 10)
        return self._early.pop((generation, rank))

    def _accept_next(self, generation: int) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(GREETING_SECONDS)
        greeting = b""
        with suppress(OSError):
            while len(greeting) < GREETING and (data := connection.recv(GREETING - len(greeting))):
                greeting += data
        of = int.from_bytes(greeting[:8], "little")
        if len(greeting) < GREETING or of < generation:
            connection.close()
            return
        key = (of, int.from_bytes(greeting[8:], "little"))
        if key in self._early:
            self._early.pop(key).close()
        self._early[key] = connection

    def close(self) -> None:
        """Close the port, and connections that were not used."""
        for each in (self._listener, *self._early.values()):
            each.close()
        self._early.clear()


class MeshTransport:
    """A `Transport` between the members of a generation: TCP sockets, without framing.

    Parameters
    ----------
    names : sequence of str
        The members, by rank.
    rank : int
        The rank of this member.
    membership : Membership
        Interrupts exchanges.
    timeout : float
        Seconds without progress after which a member counts as lost.
    """

    device = torch.device("cpu")

    def __init__(self, names: Sequence[str], rank: int, membership: Membership, timeout: float):
        self.names, self.rank, self.size, self.sent = list(names), rank, len(names), 0
        self._membership, self._timeout = membership, timeout
        self._sockets: dict[int, socket.socket] = {}
        self._is_open = True

    def add(self, rank: int, connection: socket.socket) -> None:
        """Take the connection to a rank."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        self._sockets[rank] = connection

    def keep(self, size: int) -> None:
        """Drop the ranks from `size` on, after their last exchange."""
        for rank in range(size, self.size):
            if rank != self.rank:
                self._sockets.pop(rank).close()
        self.names, self.size = self.names[:size], size

    def exchange(self, buffers: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        if not self._is_open:
            raise BitlaneError(f"{self.names[self.rank]} has left its generation after an error")
        received = [torch.empty(length, dtype=torch.uint8) for length in lengths]
        sending = {rank: each.cpu().contiguous().numpy().data for rank, each in enumerate(buffers) if len(each)}
        missing = {rank: each.numpy().data for rank, each in enumerate(received) if len(each)}
        sending.pop(self.rank, None)
        missing.pop(self.rank, None)
        self.sent += sum(map(len, sending.values()))
        received[self.rank] = buffers[self.rank]
        if sending or missing:
            self._move(sending, missing)
        return received

    def _move(self, sending: dict[int, memoryview], missing: dict[int, memoryview]) -> None:
        """Send and receive until nothing is left, in both directions at the same time."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._membership.wake, selectors.EVENT_READ)
            for rank in {*sending, *missing}:
                selector.register(self._sockets[rank], _events(rank, sending, missing), rank)
            moved = time.monotonic()
            while sending or missing:
                if self._membership.is_interrupted:
                    raise Unreached("the membership has changed during an exchange")
                ready = selector.select(max(0.0, moved + self._timeout - time.monotonic()))
                if not ready and time.monotonic() - moved > self._timeout:
                    late = sorted({*sending, *missing})
                    raise self._unreached(late, f"nothing was sent or received for {self._timeout:g} seconds")
                for key, events in ready:
                    if key.data is None:
                        self._membership.wake.recv(1 << 10)
                        continue
                    self._advance(key.data, events, sending, missing)
                    moved = time.monotonic()
                    wanted = _events(key.data, sending, missing)
                    if wanted:
                        selector.modify(key.fileobj, wanted, key.data)
                    else:
                        selector.unregister(key.fileobj)

    def _advance(self, rank: int, events: int, sending: dict[int, memoryview], missing: dict[int, memoryview]) -> None:
        connection = self._sockets[rank]
        try:
            if events & selectors.EVENT_READ and rank in missing:
                count = connection.recv_into(missing[rank])
                if not count:
                    raise self._unreached([rank], "the connection has ended")
                _shorten(missing, rank, count)
            if events & selectors.EVENT_WRITE and rank in sending:
                _shorten(sending, rank, connection.send(sending[rank]))
        except OSError as error:
            raise self._unreached([rank], error.strerror or str(error)) from error

    def _unreached(self, ranks: Sequence[int], reason: str) -> Unreached:
        names = [self.names[rank] for rank in ranks]
        return Unreached(f"{self.names[self.rank]} got no answer from {', '.join(names)}: {reason}", names)

    def abort(self) -> None:
        self.close()

    def close(self) -> None:
        self._is_open = False
        for each in self._sockets.values():
            each.close()
        self._sockets.clear()


def _events(rank: int, sending: dict[int, memoryview], missing: dict[int, memoryview]) -> int:
    return selectors.EVENT_READ * (rank in missing) | selectors.EVENT_WRITE * (rank in sending)


def _shorten(views: dict[int, memoryview], rank: int, count: int) -> None:
    views[rank] = views[rank][count:]
    if not len(views[rank]):
        del views[rank]
