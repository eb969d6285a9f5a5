"""The study of damaged bytes: requests are recorded whole, damage is repeatable, and faults are told."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bitlane_studies.sparse import fuzzing
from bitlane_studies.sparse.fuzzing import FuzzedService, damaged, fuzz, recorded

for library in ("numba", "pyarrow", "xxhash", "uvicorn"):
    pytest.importorskip(library)


def test_a_service_stands_some_seconds(tmp_path: Path, seed: int) -> None:
    service = FuzzedService(tmp_path)
    try:
        requests = service.requests()
        assert requests["http"][0].startswith(b"POST") and b"f3" in requests["http"][0]
        assert requests["flight"][0].startswith(b"PRI * HTTP/2.0")
        record = fuzz(service, 4, seed, print)
    finally:
        service.close()
    assert record.faults == [] and record.checks > 0
    assert min(record.sent["http"], record.sent["flight"]) > 20 and record.statuses["400"] > 0
    assert "right requests between them" in fuzzing.report(record)


def test_a_proxy_records_what_a_client_sends() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:

        def ask(address: str) -> None:
            host, port = address.split(":")
            with socket.create_connection((host, int(port))) as client:
                client.sendall(b"a right request")
                server.accept()[0].close()

        assert recorded(server.getsockname()[:2], ask) == b"a right request"


def test_damage_follows_from_its_seed(seed: int) -> None:
    message, others = b"GET /v2 HTTP/1.1\r\nContent-Length: 17\r\n\r\n", [b"POST /", b"x" * 99]
    found = [[damaged(message, others, random.Random(seed + n)) for n in range(50)] for _ in range(2)]
    assert found[0] == found[1] and len(set(found[0])) > 25


def test_tracebacks_and_growing_memory_are_faults(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("Traceback (most recent call last):\n  File x\n    y = 1\n\nValueError: bad\nfine\n" * 2)
    assert fuzzing._traces(log) == ["2 tracebacks in the log: ValueError: bad"]
    log.write_text("all is well\n")
    assert fuzzing._traces(log) == []
    assert fuzzing._growth([(1, 100.0), (30, 104.0), (99, 109.0)], 100) == []
    assert fuzzing._growth([(1, 100.0), (30, 104.0), (99, 111.0)], 100) == ["memory grew from 100 to 111 MB"]
