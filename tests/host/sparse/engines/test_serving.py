"""The status of a training's servers: running, not running, and not to be reached."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.sparse_servers import addresses_of, make_shards, served

pytest.importorskip("pyarrow.flight")

from bitlane.cli.main import main
from bitlane.sparse.engines.serving import status_of_run
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.servers.spec import ShardSpec

SPEC = ShardSpec((ParameterBlock(1, SGD(0.25)),))
OWN = os.uname().nodename


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder with two shards."""
    (tmp_path / "servers").mkdir()
    (tmp_path / "run.jsonl").write_text('{"kind": "sparse-run", "format": 1}\n')  # a training that was killed
    for server, folder in enumerate(make_shards(tmp_path, SPEC, 2)):
        folder.rename(tmp_path / "servers" / f"shard-{server}")
    return tmp_path


def say(run: Path, addresses: list[str], host: str, driver: int) -> None:
    record: dict[str, Any] = {"host": host, "driver": driver, "servers": [{"address": each} for each in addresses]}
    (run / "servers" / "serving.json").write_text(json.dumps(record))


def ended() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        return process.pid


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def test_servers_that_answer_run(run: Path) -> None:
    with served([run / "servers" / f"shard-{server}" for server in range(2)]) as services:
        say(run, addresses_of(services), "elsewhere", 1)
        found = status_of_run(run)
        assert found.running is True and [each["server"] for each in found.servers] == [0, 1]


@pytest.mark.parametrize(
    ("host", "alive", "running"), [(OWN, False, False), (OWN, True, None), ("elsewhere", False, None)]
)
def test_silence_means_the_end_only_where_the_driver_can_be_seen(
    run: Path, seed: int, capsys: pytest.CaptureFixture[str], host: str, alive: bool, running: bool | None
) -> None:
    addresses = [free_address() for _ in range(2)]
    lost = addresses[int(np.random.default_rng(seed).integers(2))]
    say(run, [lost, lost], host, os.getpid() if alive else ended())
    found = status_of_run(run)
    assert found.running is running and [each["rows"] for each in found.servers] == [0, 0]
    assert main(["sparse", "status", str(run)]) == 0
    said = capsys.readouterr().out
    how = f"cannot be reached: server {lost}: connection refused; the training began on host {host} and may still run"
    killed = "not running: the training was killed; train --resume goes on from its last checkpoint"
    assert said.splitlines()[-1] == (
        f"{killed if running is False else how}; rows and clocks are those of the last checkpoints"
    )
    assert main(["sparse", "status", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["running"] is running
