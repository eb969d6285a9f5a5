"""Networks between workers and servers that delay, split, cut, fall silent, and deliver requests twice."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bitlane.sparse.servers.wire import flight

HOST = "127.0.0.1"
CHUNK = 1 << 16
LONGEST_DELAY = 0.004  # seconds
OLD_REQUESTS = 50
RESET = struct.pack("ii", 1, 0)  # SO_LINGER with 0 seconds: close sends RST


@dataclass(frozen=True)
class Faults:
    """Probabilities for each chunk of bytes.

    Attributes
    ----------
    delay, split, cut : float
        It comes later; it comes in pieces; the connection ends with the chunk lost, or in the middle of it. A lost
        chunk from the server is an answer to a request that has arrived.
    """

    delay: float = 0.1
    split: float = 0.2
    cut: float = 0.02


class BadNetwork:
    """A TCP proxy in front of a server on loopback; see `bad_network`.

    Attributes
    ----------
    address : str
    cuts : Counter of str
        Connections that it ended: ``request`` or ``answer``, ``lost`` or ``middle``, ``close`` or ``reset``.
    """

    def __init__(self, port: int, seed: int, faults: Faults):
        self._port, self._draw, self.faults = port, random.Random(seed), faults
        self.cuts: Counter[str] = Counter()
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._age = 0
        self._listener = socket.create_server((HOST, 0))
        self.address = f"{HOST}:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._ended = asyncio.Event()

    def silence(self) -> None:
        """From now on, carry nothing and end nothing."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def speak(self) -> None:
        """Carry again."""
        self._loop.call_soon_threadsafe(self._flowing.set)

    def forget(self) -> None:
        """Carry nothing more on the connections of now, and end none of them: both sides think that they are open."""
        self._age += 1

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connect, sock=self._listener)
        await self._ended.wait()
        server.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        reset = False
        try:
            there, back = await asyncio.open_connection(HOST, self._port)
            ends.append(back)
            ways = [asyncio.create_task(self._carry(*way)) for way in ((reader, back, False), (there, writer, True))]
            try:
                done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                reset = any(way.exception() is None and way.result() for way in done)
            finally:
                for way in ways:
                    way.cancel()
        except (OSError, asyncio.CancelledError):
            reset = True  # the server is gone, or this test has ended
        for end in ends:
            if reset:
                with contextlib.suppress(OSError):
                    end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                end.transport.abort()
            else:
                end.close()

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, answers: bool) -> bool:
        """Carry bytes until an end of the connection; return whether it ends with RST."""
        draw, faults, age = self._draw, self.faults, self._age
        while True:
            chunk = await source.read(CHUNK)
            await self._flowing.wait()
            if age != self._age:
                await self._ended.wait()
            if not chunk:
                return False
            if draw.random() < faults.delay:
                await asyncio.sleep(draw.uniform(0, LONGEST_DELAY))
            if draw.random() < faults.cut:
                lost, reset = draw.random() < 0.5, draw.random() < 0.5
                names = "answer" if answers else "request", "lost" if lost else "middle", "reset" if reset else "close"
                self.cuts[" ".join(names)] += 1
                if not lost:
                    target.write(chunk[: draw.randrange(len(chunk))])
                    await target.drain()
                return reset
            while draw.random() < faults.split:
                size = draw.randint(0, len(chunk))
                target.write(chunk[:size])
                await target.drain()
                await asyncio.sleep(0)
                chunk = chunk[size:]
            target.write(chunk)
            await target.drain()


@contextlib.contextmanager
def bad_network(port: int, seed: int, faults: Faults = Faults()) -> Iterator[BadNetwork]:
    """Carry connections to a server on this machine, with faults that are drawn by `seed`."""
    network = BadNetwork(port, seed, faults)
    network.start()
    try:
        yield network
    finally:
        network.stop()


class RepeatingNetwork(flight.FlightServerBase):
    """Flight in front of a server: it delivers some requests a second time, at once or later in another order.

    It knows no lanes: it copies the descriptor, the schemas, the batches and what stands beside them. A second answer
    goes nowhere.

    Attributes
    ----------
    repeats : int
        Requests that were delivered again.
    """

    def __init__(self, port: int, seed: int, at_once: float = 0.2, later: float = 0.2):
        self._client = flight.FlightClient(f"grpc://{HOST}:{port}")
        self._draw, self._at_once, self._later = random.Random(seed), at_once, later
        self._old: deque[tuple[bytes, Any, Any, bytes]] = deque(maxlen=OLD_REQUESTS)  # of all lanes
        self._lock = threading.Lock()
        self.repeats = 0
        super().__init__(f"grpc://{HOST}:0")
        self.address = f"{HOST}:{self.port}"

    def do_action(self, context: Any, action: Any) -> list[bytes]:
        return [each.body.to_pybytes() for each in self._client.do_action(action)]

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        there, back = self._client.do_exchange(descriptor)
        there.begin(reader.schema)
        begun = False
        try:
            while (chunk := next_chunk(reader)) is not None:
                request = chunk.data, chunk.app_metadata.to_pybytes()
                answer = asked(there, back, *request)
                for _ in range(self._drawn(self._at_once)):
                    asked(there, back, *request)
                self._deliver_old((descriptor.command, reader.schema, *request))
                if not begun:
                    writer.begin(back.schema)
                    begun = True
                write(writer, answer.data, answer.app_metadata)
        finally:
            there.close()

    def _deliver_old(self, request: tuple[bytes, Any, Any, bytes]) -> None:
        """Remember a request, and deliver some that came before it, by lanes of their own."""
        with self._lock:
            self._old.append(request)
            chosen = [self._draw.choice(self._old) for _ in range(self._drawn(self._later))]
        for command, schema, batch, beside in chosen:
            there, back = self._client.do_exchange(flight.FlightDescriptor.for_command(command))
            there.begin(schema)
            asked(there, back, batch, beside)
            there.close()

    def _drawn(self, probability: float) -> int:
        """How often: 1 to 3 times with this probability."""
        count = self._draw.randint(1, 3) if self._draw.random() < probability else 0
        self.repeats += count
        return count


@contextlib.contextmanager
def repeating_network(port: int, seed: int, **options: float) -> Iterator[RepeatingNetwork]:
    """Deliver requests to a server on this machine, some more than once. Clients must be closed before the end."""
    network = RepeatingNetwork(port, seed, **options)
    try:
        yield network
    finally:
        network.shutdown()
        network._client.close()


def asked(writer: Any, reader: Any, batch: Any, beside: bytes) -> Any:
    """Send a request and return its answer."""
    write(writer, batch, beside)
    return reader.read_chunk()


def write(writer: Any, batch: Any, beside: Any) -> None:
    if batch is None:
        writer.write_metadata(beside)
    else:
        writer.write_with_metadata(batch, beside)


def next_chunk(reader: Any) -> Any:
    """The next chunk of a lane, None at its end."""
    try:
        return reader.read_chunk()
    except StopIteration:
        return None
