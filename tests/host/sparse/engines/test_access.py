"""What is sent to the nodes of a cluster has no secret; a node reads its own files; ports of a range."""

from __future__ import annotations

import pickle
import random
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.places import ROOT
from tests.helpers.ray_trainings import Shares

pytest.importorskip("pyarrow.flight")

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.engines.access import TLS_FILES, Access, new_access, write_token
from bitlane.sparse.engines.actors import WorkerTask
from bitlane.sparse.engines.cluster import Cluster
from bitlane.sparse.engines.fleets import Servers, Workers
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.servers.lanes import check_port
from bitlane.sparse.serving.shards.ray_actors import RayServers
from bitlane.sparse.workers.worker import WorkerOptions


class Handle:
    """The handle of an actor that never runs."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Handle()

    def __call__(self, *arguments: object) -> Handle:
        return self


class Sent(Cluster):
    """A cluster without nodes: `data` has all that it would send to actors."""

    def __init__(self) -> None:
        super().__init__(Handle(), False)
        object.__setattr__(self, "data", b"")

    def actor(self, kind: type, share: float, *arguments: Any, restarts: int = 0) -> Any:
        object.__setattr__(self, "data", self.data + pickle.dumps((kind, arguments)))
        return Handle()

    def share(self, actors: int) -> float:
        return 1.0


@pytest.fixture
def files(tmp_path: Path, seed: int) -> dict[str, Path]:
    """PEM files of random text; the first and the last line of some are public."""
    draw = random.Random(seed)
    found = {}
    for name in TLS_FILES:
        lines = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz0123456789+/", k=64)) for _ in range(5)]
        found[name] = tmp_path / f"{name}.pem"
        found[name].write_text("\n".join(["-----BEGIN-----", *lines, "-----END-----"]) + "\n")
    return found


def test_what_goes_to_actors_has_no_secret(files: dict[str, Path], tmp_path: Path) -> None:
    token = tmp_path / "token"
    write_token(token)
    access, sent = new_access(files, False, token), Sent()
    servers = Servers(sent, [tmp_path / f"shard-{server}" for server in range(2)], access, 1.0)
    task = WorkerTask(ModelSpec("lr"), WorkerOptions(2), Shares("rows", 2), access)
    Workers(sent, task, servers, 1.0)
    RayServers(sent, "models/ctr", 2, 2, access)
    assert str(token).encode() in sent.data  # the paths are sent
    for path in (token, *files.values()):
        for line in path.read_text().splitlines():
            assert line.startswith("--") or line.encode() not in sent.data, path
    assert "".join(map(repr, (access, task))).count(token.read_text().strip()) == 0


def test_the_token_is_random_and_for_its_user_only(tmp_path: Path) -> None:
    tokens = set()
    for _ in range(3):
        write_token(tmp_path / "token")
        tokens.add((tmp_path / "token").read_text())
    assert len(tokens) == 3 and stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


def test_a_node_without_a_file_says_which(files: dict[str, Path], tmp_path: Path, seed: int) -> None:
    write_token(tmp_path / "token")
    access = Access("10.1.2.3", str(tmp_path / "token"), *(str(files[name]) for name in TLS_FILES))
    assert access.server["tls"] == tuple(files[name].read_text().strip() for name in TLS_FILES[:2])
    lost = random.Random(seed).choice([tmp_path / "token", *files.values()])
    lost.unlink()
    with pytest.raises(BitlaneError, match=rf"^node 10\.1\.2\.3: {re.escape(str(lost))} cannot be read: No such file"):
        assert access.server and access.client


def test_a_cluster_needs_tls_and_one_machine_takes_none(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"need TLS: add --tls-key$"):
        new_access({**files, "tls_key": None}, False, tmp_path / "token")
    with pytest.raises(DataError, match=r"^--tls-ca needs a cluster"):
        new_access({"tls_ca": files["tls_ca"]}, True, tmp_path / "token")


def free_ports(count: int) -> int:
    """The first of some consecutive ports that are free now."""
    while True:
        sockets = []
        try:
            sockets.append(socket.create_server(("127.0.0.1", 0)))
            first = sockets[0].getsockname()[1]
            for port in range(first + 1, first + count):
                sockets.append(socket.create_server(("127.0.0.1", port)))
            return int(first)
        except (OSError, OverflowError):
            continue
        finally:
            for each in sockets:
                each.close()


SERVE = """
import sys
from bitlane.sparse.engines.access import Access
from bitlane.sparse.servers.lanes import LaneService
access = Access("127.0.0.1", "", ports=(int(sys.argv[1]), int(sys.argv[2])))
print(access.serve(lambda host, port: LaneService(host, port, (), ())).port, flush=True)
sys.stdin.read()
import os; os._exit(0)
"""


def test_servers_share_a_range_of_ports_and_say_when_it_is_full() -> None:
    first, count = free_ports(4), 4
    command = [sys.executable, "-c", SERVE, str(first), str(first + count - 1)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": ROOT, "text": True}
    programs = [subprocess.Popen(command, **pipes) for _ in range(count)]  # they start at the same time
    try:
        assert {int(each.stdout.readline()) for each in programs} == set(range(first, first + count))
        full = Access("127.0.0.1", "", ports=(first, first + count - 1))
        with pytest.raises(BitlaneError, match=f"no port from {first} to {first + count - 1} is free"):
            full.serve(check_port)
    finally:
        for each in programs:
            each.communicate("")
