"""Servers and clients that cannot start: one line and an exit status, and nothing is left behind."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.places import ROOT
from tests.helpers.sparse_servers import StepClient, addresses_of, make_shards, served, server_processes

from bitlane.errors import BitlaneError
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.spec import ShardSpec

SPEC = ShardSpec((ParameterBlock(1, SGD(1.0)),))
KEYS = np.arange(4, dtype=np.uint64)
ONES = np.ones((4, 1), np.float32)


def error_of(folder: Path, *options: str) -> str:
    """The line of a server that cannot start."""
    command = [sys.executable, "-m", "bitlane.sparse.servers.process", "--folder", str(folder), *options]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (found.returncode, found.stdout) == (1, "") and found.stderr.endswith("\n")
    line = found.stderr[:-1]
    assert "\n" not in line
    return line


def refusal(call) -> str:
    """What a client raises, at once, and with no threads left but that of deadlines."""
    before = set(threading.enumerate())
    with pytest.raises(BitlaneError) as error:
        call()
    assert {each.name for each in set(threading.enumerate()) - before} <= {"bitlane-deadlines"}
    return str(error.value)


def test_a_taken_port_and_a_served_folder_are_one_line_and_the_first_server_goes_on(tmp_path: Path) -> None:
    first, second = make_shards(tmp_path, SPEC, 2)
    with server_processes([first]) as (process,):
        assert error_of(second, "--port", str(process.port)) == (
            f"error: the server cannot listen on 127.0.0.1:{process.port}: address already in use"
        )
        assert error_of(first) == f"error: {first} is served by another process"
        with served([second]) as services, StepClient([process.address, *addresses_of(services)]) as client:
            client.send(KEYS, ONES)
            assert client.weights(KEYS).ravel().tolist() == [-1.0] * 4


def test_a_wrong_token_is_one_line_before_and_after_the_start(tmp_path: Path) -> None:
    folders = make_shards(tmp_path, SPEC, 1)
    with contextlib.ExitStack() as stack:
        with served(folders, token="secret") as (service,):
            address = addresses_of([service])[0]
            for given, message in (("other", "wrong token"), (None, "this server needs a token")):
                found = refusal(lambda given=given: StepClient([address], token=given))
                assert found == f"server {address}: {message}"
            client = stack.enter_context(StepClient([address], token="secret"))
            for each in (*client._readers, *client._updaters):
                each.close()
        port = service.port
        with served(folders, token="changed", port=port):
            note = "the update is retained: `flush` sends it again"
            assert refusal(lambda: client.send(KEYS, ONES)) == f"server {address}: wrong token; {note}"
        with served(folders, token="secret", port=port) as (service,):
            client.flush()
            assert service._shard.standing(client.worker)[0] == 1
            client.close()


def test_another_version_is_one_line_before_and_after_the_start(tmp_path: Path) -> None:
    folders = make_shards(tmp_path, SPEC, 1)
    with server_processes(folders) as (process,):
        versions = f"protocol 9, this bitlane {wire.PROTOCOL}"
        message = f"server {process.address} speaks {versions}: install the same version of bitlane"
        with StepClient([process.address]) as client:
            process.kill()
            process._fault = "of_another_version"
            process.start()
            assert refusal(lambda: StepClient([process.address])) == message
            assert refusal(lambda: client.send(KEYS, ONES)).startswith(message)
            process.kill()
            process._fault = ""
            process.start()
            client.flush()
            assert client.weights(KEYS).ravel().tolist() == [-1.0] * 4
