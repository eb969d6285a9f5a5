"""Clients of several servers: what they count, and the traffic computed from it."""

from __future__ import annotations

import socket
import sys

import pytest

pytest.importorskip("pyarrow.flight")

from bitlane_studies.sparse import server_scaling as study
from bitlane_studies.sparse.servers import keys_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system counts the bytes")


def test_bytes_of_connections_are_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as near, server.accept()[0] as far:
            before = study.socket_bytes({port})  # the first packet counts as a byte
            near.sendall(bytes(1000))
            assert len(far.recv(1000, socket.MSG_WAITALL)) == 1000
            far.sendall(bytes(300))
            assert len(near.recv(300, socket.MSG_WAITALL)) == 300
            assert study.socket_bytes({port}) == (before[0] + 1000, before[1] + 300)
            assert study.socket_bytes({1}) == (0, 0)


@pytest.mark.slow
def test_clients_move_what_the_format_says() -> None:
    load = study.measure(2, 2, keys_of(20_000), 10_000, 2, 0.5)
    assert load.rounds > 0
    sent, received = load.sent / load.rounds / 10_000, load.received / load.rounds / 10_000
    assert 24 <= sent < 25 and 8 <= received < 8.8  # twice a key, a gradient; weights; framing


def test_the_command_prints_table_and_formula(monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(study, "measure", lambda servers, clients, *rest: study.Load(10.0 * clients, 12e6, 4e6))
    study.main(["--servers", "2", "--clients", "1", "2"])
    out = capsys.readouterr().out
    assert out.splitlines()[3].split() == ["2", "1", "0.5", "million", "12", "4"]
    # 100 workers x 50,000 keys x 12 bytes / 20 servers, and 4 bytes back
    assert "receives W r K u / S = 3.0 MB a second and sends W r K d / S = 1.0." in out


def test_the_formula() -> None:
    assert study.traffic(100, 20, 50_000, 20.0) == 5e6
    assert study.traffic(1, 1, 7, 3.0) == 21


def test_bad_sizes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        study.main(["--servers", "0"])
    assert error.value.code == 2 and "--servers" in capsys.readouterr().err
