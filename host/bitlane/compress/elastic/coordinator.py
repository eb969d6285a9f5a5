"""The process that hosts the roster: it accepts members, notices those that end or hang, and passes decisions on.

It holds no weights. If it dies, members wait for its successor at the same address (`Membership`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from bitlane.errors import BitlaneError, DataError

from .messages import LIMIT, Message, packed, unpacked
from .roster import Phase, Roster, Seat

LOG = logging.getLogger(__name__)
CHECKS = 5  # signs of life in the time after which a silent member is out


class Coordinator:
    """Decides who belongs to a training, for the members that connect.

    Parameters
    ----------
    members : int
        Members with which the training begins; later there may be more or fewer.
    silence : float, default: 10
        Seconds after which a member that gives no sign of life is voted out. A stopped or unreachable process costs
        the others this time; one that ends costs none.
    patience : float, default: 600
        Seconds that members wait at a round for one that is alive.
    """

    def __init__(self, members: int, silence: float = 10.0, patience: float = 600.0):
        self.roster = Roster(members)
        self.silence, self.patience = silence, patience
        self._writers: dict[str, asyncio.StreamWriter] = {}
        self._heard: dict[str, float] = {}
        self._awaited: tuple[int, Phase, tuple[str, ...]] | None = None
        self._told = 0  # generation
        self._since = 0.0  # when the members last began to wait for others, or came back to a new coordinator
        self._done: asyncio.Event

    async def serve(self, host: str, port: int, on_ready: Callable[[int], None] = lambda port: None) -> str:
        """Serve until the training has ended; return why.

        Parameters
        ----------
        host, port : str and int
            Where to listen; port 0 for any.
        on_ready : callable, optional
            Called with the port.

        Raises
        ------
        BitlaneError
            If all members with the state have ended, or the address cannot be used.
        """
        self._done = asyncio.Event()
        try:
            server = await asyncio.start_server(self._serve_member, host, port, limit=LIMIT)
        except OSError as error:
            raise BitlaneError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        on_ready(server.sockets[0].getsockname()[1])
        watch = asyncio.create_task(self._watch())
        await self._done.wait()
        watch.cancel()
        server.close()
        for writer in list(self._writers.values()):
            with suppress(OSError, asyncio.TimeoutError):
                await asyncio.wait_for(writer.drain(), 1)
            writer.close()
        if self.roster.state_lost:
            raise BitlaneError(self.roster.ended)
        return self.roster.ended

    async def _serve_member(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = ""
        try:
            hello = unpacked(await asyncio.wait_for(reader.readline(), self.silence))
            name = self._join(hello, writer)
            while (line := await reader.readline()) and self._writers.get(name) is writer:
                self._take(name, unpacked(line))
        except DataError as error:
            writer.write(packed("out", {"reason": str(error)}))
        except (OSError, asyncio.TimeoutError, ValueError, KeyError, TypeError) as error:  # not a member
            LOG.debug("a connection failed: %r", error)
        except asyncio.CancelledError:
            return  # the training has ended
        if name and self._writers.get(name) is writer:
            LOG.info("%s has ended", name)
            del self._writers[name]
            self.roster.lose(name)
            self._deliver()
        writer.close()

    def _join(self, hello: Message, writer: asyncio.StreamWriter) -> str:
        name = str(hello["name"])
        address = (str(hello["host"]), int(hello["port"]))
        seat = Seat(name, address, str(hello["settings"]), int(hello["step"]), str(hello["state"]))
        writer.write(packed("welcome", {"silence": self.silence}))
        self._since = monotonic()
        self.roster.join(seat, hello["members"])
        self._writers[name], self._heard[name] = writer, monotonic()
        LOG.info("%s joins with the state of step %d", name, seat.step)
        self._deliver()
        return name

    def _take(self, name: str, message: Message) -> None:
        self._heard[name] = monotonic()
        kind, roster = message["kind"], self.roster
        if kind in ("end", "leave"):
            getattr(roster, kind)(name)
        elif kind == "present":
            roster.present(name, message["generation"])
        elif kind in ("formed", "arrived", "voted"):
            getattr(roster, kind)(name, message["generation"], message)
        self._deliver()

    def _deliver(self) -> None:
        """Send the messages of the roster."""
        if self._told < self.roster.generation:
            self._told = self.roster.generation
            LOG.info("generation %d: %s", self._told, ", ".join(self.roster.members))
        while self.roster.outbox:
            name, kind, fields = self.roster.outbox.pop(0)
            writer = self._writers.get(name)
            if writer is None:
                continue
            writer.write(packed(kind, fields))
            if kind in ("out", "released"):
                del self._writers[name]
                writer.close()
        if self.roster.ended:
            self._done.set()

    async def _watch(self) -> None:
        """Send signs of life, and vote out who gives none, or lets the others wait too long."""
        period, last = min(self.silence, self.patience) / CHECKS, monotonic()
        while True:
            await asyncio.sleep(period)
            now = monotonic()
            if now - last > self.silence / 2:  # this process was stopped, so it has heard nobody
                self._heard = dict.fromkeys(self._heard, now)
            last = now
            for name, writer in list(self._writers.items()):
                writer.write(packed("alive", {}))
                if now - self._heard[name] > self.silence:
                    self.roster.vote_out(name, f"it gave no sign of life for {self.silence:g} seconds")
            self._check_patience(now)
            self._deliver()

    def _check_patience(self, now: float) -> None:
        roster = self.roster
        awaited = (roster.generation, roster.phase, tuple(roster.awaited()))
        if roster.phase is Phase.GATHERING:
            if roster.expects_return and now - self._since > self.patience:
                roster.begin()
        elif awaited != self._awaited:
            self._awaited, self._since = awaited, now
        elif now - self._since > self.patience:
            for name in awaited[2]:
                roster.vote_out(name, f"the others waited {self.patience:g} seconds for it")
