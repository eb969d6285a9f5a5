"""Connections that say nothing, or half of something, keep nobody with the token from an answer."""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.places import ROOT
from tests.helpers.sparse_models import planted_rows

from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.registry.publisher import Publisher
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.servers.newcomers import Newcomers
from bitlane.sparse.serving.client import ScoringClient

DESCRIPTORS, STRANGERS = 256, 300
TOKEN = "a long token"
HALVES = [
    b"",
    b"G",
    b"GET /v2 HTTP/1.1\r\nHost: a\r\nAuthorization: Bea",
    b"POST /v2/models/ctr/infer HTTP/1.1\r\nContent-Length: 9\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    b"\x16\x03\x01\x02\x00\x01\x00",
    b"\x00\xff" * 50,
]


@pytest.fixture
def addresses(tmp_path: Path) -> Iterator[tuple[str, str, subprocess.Popen[str]]]:
    """Addresses for HTTP and Arrow Flight, and the process of a service that may open few files."""
    registry, model = ModelRegistry(tmp_path / "ctr"), SparseModel(ModelSpec("lr"))
    model.learn(planted_rows(1, 50))
    Publisher(registry, model).publish()
    (tmp_path / "token").write_text(TOKEN)
    program = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS // 2}, {DESCRIPTORS}))\n"
        "from bitlane.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    options = ["--label", "latest", "--port", "0", "--flight-port", "0", "--token-file", str(tmp_path / "token")]
    command = [sys.executable, "-c", program, "sparse", "serve", registry.uri, *options]
    with (
        open(tmp_path / "log", "w") as log,
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            line = process.stdout.readline()
            web, flight = (part.split("//")[1].split()[0] for part in line.split(" at ")[1].split(" and "))
            yield web, flight, process
        finally:
            process.kill()


@contextlib.contextmanager
def strangers(address: str, count: int, rng: np.random.Generator) -> Iterator[list[socket.socket]]:
    """Connections that send half of something, and stay open."""
    host, port = address.split(":")
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            stranger = stack.enter_context(socket.socket())
            stranger.settimeout(0.2)
            with contextlib.suppress(OSError):  # refused, or ended at once
                stranger.connect((host, int(port)))
                stranger.sendall(HALVES[rng.integers(len(HALVES))])
            opened.append(stranger)
        yield opened


def ask(address: str) -> dict[str, object]:
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request("GET", "/v2/health", headers={"Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    assert answer.status == 200
    connection.close()
    return dict(answer.headers)


def score(client: ScoringClient) -> int:
    return client.score(np.array([7], np.uint64), np.array([0, 1])).version


def test_three_hundred_strangers_hold_nobody_up(
    addresses: tuple[str, str, subprocess.Popen[str]], tmp_path: Path, seed: int
) -> None:
    web, flight, process = addresses
    rng = np.random.default_rng(seed)
    with ScoringClient(flight, token=TOKEN, deadline=20) as early, contextlib.ExitStack() as stack:
        assert score(early) == 1
        for address in (web, flight):
            stack.enter_context(strangers(address, STRANGERS, rng))
        for _ in range(3):
            began = time.monotonic()
            ask(web)
            with ScoringClient(flight, token=TOKEN, deadline=10) as late:
                assert score(late) == score(early) == 1
            assert time.monotonic() - began < 10
    assert process.poll() is None
    log = (tmp_path / "log").read_text()
    assert "Traceback" not in log and log.count("\n") < 20, log


def test_who_is_late_is_ended_and_who_is_known_stays(seed: int) -> None:
    rng = np.random.default_rng(seed)
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as stack:
        port = server.getsockname()[1]
        newcomers = Newcomers(seconds=0.5, most=6)
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(10)]
        accepted = [stack.enter_context(server.accept()[0]) for _ in clients]
        known = set(rng.permutation(10)[:3].tolist())
        for number in known:
            host, own = clients[number].getsockname()
            newcomers.admit(host, own) if number % 2 else newcomers.admit_peer(f"ipv4:{host}:{own}")
        newcomers.look(port)
        ended = [number for number, client in enumerate(clients) if has_ended(client)]
        assert len(ended) == 1 and not known & set(ended)  # seven newcomers, six at most
        time.sleep(0.6)
        newcomers.look(port)
        assert {number for number, client in enumerate(clients) if not has_ended(client)} == known
        assert all(each.fileno() >= 0 for each in accepted)  # their owner closes them


def test_the_limit_of_descriptors_is_raised() -> None:
    program = (
        "import resource; from bitlane.sparse.servers.newcomers import raise_descriptor_limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200)); raise_descriptor_limit()\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout == "(200, 200)\n"


def has_ended(client: socket.socket) -> bool:
    client.settimeout(0.05)
    try:
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True
