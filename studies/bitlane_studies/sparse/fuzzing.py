"""A scoring service under damaged bytes: `python -m bitlane_studies.sparse.fuzzing --minutes 10`.

`bitlane sparse serve` runs in a process of its own. The bytes of right requests, HTTP and Arrow Flight, are recorded,
damaged at random, and sent, each to a connection of its own: bits are flipped, parts are cut, repeated, exchanged with
parts of other requests, and numbers become huge. Some connections are reset, some stay half open for a while. Between
them, right requests must get the same answers as at the beginning. It prints how many connections there were, what HTTP
answered, and the memory of the service, and ends with status 1 after a wrong or late answer, a traceback in the log,
memory that grows by more than a tenth after the first fifth of the time, or the end of the service.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import re
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bitlane.cli.argument_types import seed
from bitlane.cli.main import main as bitlane
from bitlane.errors import BitlaneError
from bitlane.sparse.serving.client import ScoringClient
from bitlane.support.text import align_columns
from bitlane_studies.sparse.command_process import CommandProcess

HALF_OPEN = 50  # connections that stay open at most
GROWTH = 1.1  # of the memory, at most
QUIET = 0.05  # seconds without an answer after which a connection ends
PATIENCE = 10.0  # seconds that a right request may take

Place = tuple[str, int]


@dataclass
class FuzzingRecord:
    """What was seen.

    Attributes
    ----------
    statuses : Counter of str
        First lines of HTTP's answers; "" for connections that the service ended without one.
    sent : Counter of str
        Connections by protocol.
    checks : int
        Right requests between them.
    memory : list of (float, float)
        Seconds since the beginning, and MB of the service.
    faults : list of str
    """

    statuses: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    checks: int = 0
    memory: list[tuple[float, float]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def damaged(message: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Return the bytes of a request with one to eight random changes."""
    found = bytearray(message)
    for _ in range(rng.randint(1, 8)):
        start = rng.randrange(len(found) + 1)
        stop = min(len(found), start + rng.choice((1, 1, 4, 16, 256)))
        match rng.randrange(7):
            case 0:
                for at in range(start, stop):
                    found[at] ^= 1 << rng.randrange(8)
            case 1:
                del found[start:stop]
            case 2:
                found[start:start] = found[start:stop] * rng.choice((1, 2, 100))
            case 3:
                found[start:start] = rng.randbytes(rng.choice((1, 4, 64)))
            case 4:
                other = rng.choice(others)
                found[start:stop] = other[rng.randrange(len(other)) :][: rng.choice((4, 64, 1024))]
            case 5:
                del found[start:]
            case _:
                numbers = list(re.finditer(rb"\d+", found))
                if numbers:
                    chosen = rng.choice(numbers)
                    huge = (b"0", b"-1", b"4294967296", b"9" * 400, b"1e999", b"NaN")
                    found[chosen.start() : chosen.end()] = rng.choice(huge)
    return bytes(found)


def recorded(place: Place, ask: Callable[[str], object]) -> bytes:
    """Return what a client sends to a server.

    Parameters
    ----------
    place : tuple
        Host and port of the server.
    ask : callable
        Takes the address of a proxy, ``host:port``, and returns when its requests are answered.
    """
    sent = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def forward() -> None:
            with proxy.accept()[0] as client, socket.create_connection(place) as server:
                back = threading.Thread(target=_copy, args=(server, client, bytearray()), daemon=True)
                back.start()
                _copy(client, server, sent)
                back.join()

        thread = threading.Thread(target=forward, daemon=True)
        thread.start()
        ask(f"127.0.0.1:{proxy.getsockname()[1]}")
        thread.join(PATIENCE)
    return bytes(sent)


def _copy(source: socket.socket, into: socket.socket, copied: bytearray) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            copied += data
            into.sendall(data)
    with contextlib.suppress(OSError):
        into.shutdown(socket.SHUT_WR)


def served_model(folder: Path) -> Path:
    """Train, publish and promote a small model by the commands that a user types; return its registry folder."""
    clicks, run, registry = (str(folder / name) for name in ("clicks", "run", "models/ctr"))
    for command in (
        ["generate", clicks, "--rows", "5000", "--fields", "4", "--keys", "500"],
        ["train", clicks, "--test-fraction", "0.2", "--out", run],
        ["publish", run, registry],
        ["promote", registry, "latest", "--held-out", clicks, "--test-fraction", "0.2"],
    ):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
            if bitlane(["sparse", *command]):
                raise BitlaneError(errors.getvalue().strip())
    return Path(registry)


class FuzzedService:
    """A service, and right requests to it.

    Parameters
    ----------
    folder : Path
        For its model and its log.

    Attributes
    ----------
    places : dict
        Host and port of "http" and "flight".
    log : Path
    """

    def __init__(self, folder: Path):
        self.log = folder / "serve.log"
        arguments = ["sparse", "serve", str(served_model(folder)), "--port", "0", "--flight-port", "0"]
        self._process = CommandProcess(arguments, self.log)
        line = self._process.line_with("grpc://", 60.0)
        http, flight = (re.search(rf"{scheme}://([\d.]+):(\d+)", line) for scheme in ("http", "grpc"))
        assert http and flight
        self.places: dict[str, Place] = {
            name: (found[1], int(found[2])) for name, found in (("http", http), ("flight", flight))
        }
        self._right = self.answers()

    def requests(self) -> dict[str, list[bytes]]:
        """Return the bytes of right requests, by protocol."""
        flight = recorded(self.places["flight"], self._ask_flight)
        return {"http": _http_requests(self._body()), "flight": [flight]}

    def answers(self) -> tuple[Any, ...]:
        """Return what both protocols answer to right requests."""
        host, port = self.places["flight"]
        with socket.create_connection(self.places["http"], PATIENCE) as connection:
            connection.sendall(_http_requests(self._body())[0])
            answer = b""
            while b'"data":[' not in answer:
                data = connection.recv(1 << 16)
                if not data:
                    raise BitlaneError(f"HTTP answered {answer[:80]!r} to a right request")
                answer += data
        return re.findall(rb'"data":\[([^]]*)', answer)[0], *self._ask_flight(f"{host}:{port}")

    def check(self) -> None:
        """Ask again.

        Raises
        ------
        BitlaneError
            Another answer than at the beginning, or none.
        """
        if self._process.has_ended:
            raise BitlaneError("the service has ended")
        try:
            answers = self.answers()
        except OSError as error:
            raise BitlaneError(f"no answer to a right request: {error}") from error
        if answers != self._right:
            raise BitlaneError(f"{answers} instead of {self._right} to a right request")

    def memory(self) -> float:
        """Return the resident memory of the service, MB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        assert found
        return int(found[1]) / 1024

    def close(self) -> None:
        """Press Ctrl-C; the service must end well."""
        self._process.interrupt(0)

    def _body(self) -> bytes:
        inputs = [{"name": f"f{number}", "datatype": "BYTES", "shape": [2], "data": ["7", None]} for number in range(4)]
        return json.dumps({"inputs": inputs}).encode()

    def _ask_flight(self, address: str) -> tuple[float, ...]:
        with ScoringClient(address, deadline=PATIENCE) as client:
            found = client.score(np.arange(6, dtype=np.uint64), np.array([0, 2, 6]))
            return tuple(found.predictions.tolist())


def _http_requests(body: bytes) -> list[bytes]:
    head = b"Host: localhost\r\nConnection: close\r\n"
    length = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    chunked = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    infer = b"POST /v2/models/ctr/infer HTTP/1.1\r\n" + head
    pages = (b"/", b"/metrics", b"/v2", b"/v2/health/ready", b"/v2/models/ctr", b"/v2/models/ctr/versions/1")
    return [
        infer + length + body,
        infer + chunked,
        *(b"GET " + page + b" HTTP/1.1\r\n" + head + b"\r\n" for page in pages),
    ]


def fuzz(service: FuzzedService, seconds: float, start: int, say: Callable[[str], object]) -> FuzzingRecord:
    """Send damaged requests for some seconds.

    Parameters
    ----------
    service : FuzzedService
    seconds : float
    start : int
        Seed of the damage.
    say : callable
        Takes a line about the progress.
    """
    rng, seen, begin = random.Random(start), FuzzingRecord(), time.monotonic()
    requests = service.requests()
    messages = [each for found in requests.values() for each in found]
    half_open: list[socket.socket] = []
    said = 0.0
    while (now := time.monotonic() - begin) < seconds and not seen.faults:
        for _ in range(100):
            protocol = rng.choice(("http", "flight"))
            data = damaged(rng.choice(requests[protocol]), messages, rng)
            seen.sent[protocol] += 1
            status = _send(service.places[protocol], data, rng, half_open)
            if protocol == "http" and status is not None:
                seen.statuses[status] += 1
        while len(half_open) > HALF_OPEN:
            half_open.pop(0).close()
        seen.memory.append((now, service.memory()))
        try:
            service.check()
        except BitlaneError as error:
            seen.faults.append(str(error))
        seen.checks += 1
        if now > said + 30:
            said = now
            say(f"{now:.0f} s: {seen.sent.total():,} connections, {seen.memory[-1][1]:.0f} MB")
    for connection in half_open:
        connection.close()
    seen.faults += [*_traces(service.log), *_growth(seen.memory, seconds)]
    return seen


def _send(place: Place, data: bytes, rng: random.Random, half_open: list[socket.socket]) -> str | None:
    """Send bytes to a connection of their own and return the first line of an answer, or None if it stays open."""
    try:
        connection = socket.create_connection(place, PATIENCE)
    except OSError:
        return ""
    answer = b""
    with contextlib.suppress(OSError):
        for part in _parts(data, rng):
            connection.sendall(part)
        way = rng.randrange(10)
        if way == 0:
            half_open.append(connection)
            return None
        if way == 1:  # a reset
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            if way < 8:
                connection.shutdown(socket.SHUT_WR)
            connection.settimeout(QUIET)
            while len(answer) < 1 << 16 and (more := connection.recv(1 << 12)):
                answer += more
    connection.close()
    found = re.match(rb"HTTP/1.1 (\d+)", answer)
    return found[1].decode() if found else ""


def _parts(data: bytes, rng: random.Random) -> Iterator[bytes]:
    """The bytes in one piece or in a few."""
    while data and rng.random() < 0.3:
        size = rng.randint(1, len(data))
        yield data[:size]
        data = data[size:]
    yield data


def _traces(log: Path) -> list[str]:
    """The last lines of the tracebacks in a log, each kind once."""
    found = re.findall(r"Traceback \(most recent call last\):\n(?:[ ].*\n|\n)*(\S.*)", log.read_text(errors="replace"))
    return [f"{number} tracebacks in the log: {line}" for line, number in Counter(found).items()]


def _growth(memory: list[tuple[float, float]], seconds: float) -> list[str]:
    first = max((size for at, size in memory if at <= seconds / 5), default=0.0)
    last = max((size for at, size in memory if at > seconds / 5), default=0.0)
    return [f"memory grew from {first:.0f} to {last:.0f} MB"] if first and last > GROWTH * first else []


def report(seen: FuzzingRecord) -> str:
    """Return what was seen, as a table."""
    sizes = [size for _, size in seen.memory]
    cells = [(f"connections, {name}", f"{number:,}") for name, number in sorted(seen.sent.items())]
    cells += [
        (f"HTTP: {status or 'no answer, or the connection was ended'}", f"{number:,}")
        for status, number in sorted(seen.statuses.items())
    ]
    cells.append(("right requests between them", f"{seen.checks:,}"))
    if sizes:
        cells.append(
            (
                "memory: first, least, most, last, MB",
                f"{sizes[0]:.0f}, {min(sizes):.0f}, {max(sizes):.0f}, {sizes[-1]:.0f}",
            )
        )
    return "\n".join([align_columns(cells), *seen.faults])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study, print what was seen, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_studies.sparse.fuzzing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=10.0, metavar="X", help="default: 10")
    parser.add_argument("--seed", type=seed, default=None, metavar="N", help="of the damage (default: a fresh one)")
    arguments = parser.parse_args(argv)
    start = random.SystemRandom().randrange(1 << 32) if arguments.seed is None else arguments.seed
    print(f"seed {start}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        service = FuzzedService(Path(name))
        seen = fuzz(service, 60 * arguments.minutes, start, lambda line: print(line, file=sys.stderr, flush=True))
        service.close()
    print(report(seen))
    return 1 if seen.faults else 0


if __name__ == "__main__":
    sys.exit(main())
