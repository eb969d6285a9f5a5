"""What a server refuses, in one line each, and what it tells."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_servers import DRIVER, StepClient, addresses_of, make_shards, payload, served

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.connection import Connection, Identity
from bitlane.sparse.servers.service import ShardService
from bitlane.sparse.servers.shard import ParameterShard
from bitlane.sparse.servers.spec import ShardSpec

SPEC = ShardSpec((ParameterBlock(1, SGD(1.0)),))
KEYS = np.arange(4, dtype=np.uint64)
ONES = np.ones((4, 1), np.float32)


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return make_shards(tmp_path, SPEC, 1)


@pytest.fixture
def address(folders: list[Path]):
    with served(folders) as services:
        yield addresses_of(services)[0]


def one_line(error: pytest.ExceptionInfo[BitlaneError]) -> str:
    assert "\n" not in str(error.value) and "gRPC" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(("token", "message"), [("other", "wrong token"), (None, "this server needs a token")])
def test_a_wrong_token_is_refused(folders: list[Path], token: str | None, message: str) -> None:
    with served(folders, token="secret") as services:
        address = addresses_of(services)[0]
        with pytest.raises(BitlaneError) as error:
            StepClient([address], token=token)
        assert one_line(error) == f"server {address}: {message}"
        with StepClient([address], token="secret") as parameters:
            assert parameters.weights(KEYS).shape == (4, 1)


def test_a_lane_needs_the_token_too(folders: list[Path]) -> None:
    with served(folders, token="secret") as services:
        connection = Connection(addresses_of(services)[0], Identity("w", "c"), False)
        connection._client = wire.flight.FlightClient(f"grpc://{connection.address}")
        with pytest.raises(BitlaneError, match="needs a token"):
            connection.send("step", wire.byte_batch(payload(KEYS, ONES)), {})
            connection.receive("step")


def test_gradients_of_another_width_are_refused(address: str) -> None:
    with StepClient([address]) as parameters:
        with pytest.raises(DataError) as error:
            parameters.send(KEYS, np.ones((4, 2)))
        assert "4 rows of 'float32' need 16 bytes; got 32" in one_line(error)
        parameters.send(KEYS, ONES)  # the lane and the sequence go on
        assert parameters.status()[0]["sequences"] == {DRIVER: 1, parameters.worker: 1}


def test_a_request_with_other_columns_is_refused(address: str) -> None:
    connection = Connection(address, Identity("w", "c"), False)
    connection.hello(float("inf"))
    connection.send("read", wire.key_batch(KEYS), {"clock": 0})
    with pytest.raises(DataError) as error:
        connection.receive("read")
    connection.close()
    assert one_line(error).endswith("a request has the column byte: uint8; got key: uint64")


def test_a_gap_in_the_sequences_is_an_error(address: str) -> None:
    with StepClient([address], worker="w") as parameters:
        parameters.send(KEYS, ONES)
        parameters._number = 8
        with pytest.raises(DataError) as error:
            parameters.send(KEYS, ONES)
        assert one_line(error) == f"server {address}: missing updates of worker 'w': got sequence 8, expected 2"


def test_two_clients_of_one_name_do_not_lose_updates(address: str) -> None:
    with StepClient([address], worker="w") as first, StepClient([address], worker="w") as second:
        second.send(KEYS, ONES)
        with pytest.raises(DataError, match="another client is named worker 'w': names must differ"):
            first.send(KEYS, ONES)


def test_a_taken_port_is_an_error(folders: list[Path]) -> None:
    shard = ParameterShard.open(folders[0])
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(BitlaneError) as error:
            ShardService(shard, port=port)
        assert one_line(error) == f"the server cannot listen on 127.0.0.1:{port}: address already in use"
    with pytest.raises(BitlaneError, match=r"cannot listen on 127\.0\.0\.1:70000: "):
        ShardService(shard, port=70000)
    shard.close()


def test_another_version_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(address, Identity("w", "c"), False)
    checked = Connection._checked
    monkeypatch.setattr(Connection, "_checked", lambda self, answer: {**checked(self, answer), "protocol": 9})
    with pytest.raises(BitlaneError) as error:
        connection.hello(float("inf"))
    assert one_line(error) == (
        f"server {address} speaks protocol 9, this bitlane {wire.PROTOCOL}: install the same version of bitlane"
    )


def test_a_server_tells_its_version_to_other_clients(address: str) -> None:
    connection = Connection(address, Identity("w", "c"), False)
    connection._client = wire.flight.FlightClient(f"grpc://{address}")
    assert connection.action("hello", {"protocol": 9}, float("inf")) == {"protocol": wire.PROTOCOL}


def test_requests_beyond_the_limit_are_refused_and_tried_again(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()
    read = ParameterShard.read

    def slow(self, *given, **settings):
        begun.set()
        assert go.wait(20)
        return read(self, *given, **settings)

    monkeypatch.setattr(ParameterShard, "read", slow)
    with served(folders, limit=1) as services:
        address = addresses_of(services)
        with StepClient(address) as first, StepClient(address, deadline=0.3) as second:
            thread = threading.Thread(target=first.weights, args=(KEYS,))
            thread.start()
            assert begun.wait(10)
            with pytest.raises(BitlaneError, match=r": busy: 1 requests wait; gave up after 0\.3 s$"):
                second.weights(KEYS)
            go.set()
            thread.join()
            assert second.weights(KEYS).shape == (4, 1)


@pytest.mark.parametrize(
    ("token", "tls", "missing"), [(None, None, "a token and TLS"), ("t", None, "TLS"), (None, ("c", "k"), "a token")]
)
def test_off_loopback_a_server_needs_token_and_tls(folders: list[Path], token, tls, missing: str) -> None:
    shard = ParameterShard.open(folders[0])
    with pytest.raises(DataError, match=rf"^a server on 0\.0\.0\.0 can be reached .* it needs {missing}$"):
        ShardService(shard, "0.0.0.0", token=token, tls=tls)
    shard.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate by openssl")
def test_tls(folders: list[Path], tmp_path: Path) -> None:
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    names = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "cert")]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    certificate = (tmp_path / "cert").read_text()
    with served(folders, host="0.0.0.0", token="t", tls=(certificate, (tmp_path / "key").read_text())) as services:
        address = f"localhost:{services[0].port}"
        with StepClient([address], token="t", certificates=certificate) as parameters:
            parameters.send(KEYS, ONES)
            assert parameters.weights(KEYS).ravel().tolist() == [-1.0] * 4
        with pytest.raises(BitlaneError) as error:
            StepClient([address], token="t")
        one_line(error)


def test_unknown_actions_are_refused(address: str) -> None:
    connection = Connection(address, Identity("w", "c"), False)
    connection.hello(float("inf"))
    with pytest.raises(DataError, match="unknown action 'drop'"):
        connection.action("drop", {}, float("inf"))
    with pytest.raises(BitlaneError, match="cannot be stopped by a request"):
        connection.action("stop", {}, float("inf"))


def test_a_server_that_ends_asks_clients_to_come_again(folders: list[Path]) -> None:
    with served(folders) as services, StepClient(addresses_of(services), deadline=0.2) as parameters:
        services[0].refuse()
        with pytest.raises(BitlaneError, match=r"the server is shutting down; gave up after 0\.2 s"):
            parameters.weights(KEYS)
