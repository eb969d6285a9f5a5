"""The study of slow replicas, with few keys; the network that makes one slow."""

from __future__ import annotations

import re
import socket
import threading
import time

import pytest

pytest.importorskip("numba")
pytest.importorskip("pyarrow.flight")

from bitlane_studies.sparse import sharded_serving as study


def test_the_command_prints_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--keys", "3000", "--rows", "20", "--features", "50", "--shards", "1"]
    study.main([*shape, "--requests", "60", "--delay", "0.05", "--share", "0.2"])
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"20 x 50 features +requests +p50, ms", lines[0])
    found = {re.split(r"  +", line)[0]: re.split(r"  +", line)[1:] for line in lines[2:]}
    slow = ("no slow replica", "one slow in all answers", "one slow in 20% of its answers")
    assert list(found) == [f"{name}, hedging {state}" for name in slow for state in ("off", "on")]
    for name, (requests, *numbers, extra, partial) in found.items():
        p50, p99, p999, _ = map(float, numbers)
        assert requests == "60" and 0 < p50 <= p99 <= p999 and partial == "0"
        assert (extra == "0.0%") >= name.endswith("off")


@pytest.mark.parametrize(("share", "least", "most"), [(1.0, 0.2, 10.0), (0.0, 0.0, 0.15)])
def test_answers_come_later(share: float, least: float, most: float) -> None:
    """Those that are chosen; whole, and in several pieces."""
    server = socket.create_server(("127.0.0.1", 0))

    def echo() -> None:
        connection, _ = server.accept()
        with connection:
            while data := connection.recv(1 << 16):
                connection.sendall(data)

    thread = threading.Thread(target=echo)
    thread.start()
    with study.slow_link(f"127.0.0.1:{server.getsockname()[1]}", 0.2, share) as address:
        client = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), 10)
        for size in (1, 3000):
            begin, found = time.monotonic(), b""
            client.sendall(b"x" * size)
            while len(found) < size:
                found += client.recv(1 << 16)
            assert least <= time.monotonic() - begin <= most
        client.close()
    thread.join(10)
    server.close()
