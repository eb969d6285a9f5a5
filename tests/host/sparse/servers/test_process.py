"""A server in a process: its line, its end with a checkpoint, its errors."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.places import ROOT
from tests.helpers.sparse_servers import StepClient, make_shards, server_processes

from bitlane.errors import BitlaneError
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.servers import process
from bitlane.sparse.servers.epochs import current_folder
from bitlane.sparse.servers.shard import ParameterShard
from bitlane.sparse.servers.spec import ShardSpec

SPEC = ShardSpec((ParameterBlock(1, SGD(1.0)),))
KEYS = np.arange(4, dtype=np.uint64)
ONES = np.ones((4, 1), np.float32)
PROGRAM = [sys.executable, "-m", "bitlane.sparse.servers.process"]


def test_sigterm_ends_it_with_a_checkpoint_while_clients_are_connected(tmp_path: Path) -> None:
    folder = make_shards(tmp_path, SPEC, 1)[0]
    options = ("--checkpoint-bytes", "100")
    with server_processes([folder], *options) as processes, StepClient([processes[0].address]) as client:
        client.send(KEYS, 0 * ONES)
        wait_until(lambda: (current_folder(folder) / "checkpoint-0000002").exists())  # the log has become long
        client.send(KEYS, ONES)
        assert processes[0].terminate() == 0
        found = [path.name for path in current_folder(folder).glob("checkpoint-*")]
        assert len(found) == 1 and found[0] >= "checkpoint-0000003"
        log = list((current_folder(folder) / "log").iterdir())
        assert len(log) == 1 and log[0].stat().st_size == 32
        processes[0].start()
        client.send(KEYS, ONES)
        assert client.weights(KEYS).ravel().tolist() == [-2.0] * 4
        client.stop_servers()
        assert processes[0].process.wait(30) == 0
    shard = ParameterShard.open(folder)
    assert shard.parameters.pull(KEYS).ravel().tolist() == [-2.0] * 4
    shard.close()


def test_it_makes_its_folder_by_a_description_and_ends_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(json.dumps(SPEC.to_json()))
    options = ["--folder", str(tmp_path / "shard"), "--spec", str(tmp_path / "spec.json"), "--with-parent"]
    program = f"import subprocess, sys; p = subprocess.Popen({[*PROGRAM, *options]!r}); sys.stdin.read()"
    parent = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    ready = json.loads(parent.stdout.readline())
    assert set(ready) == {"port", "pid", "server"} and (tmp_path / "shard/shard.json").exists()
    parent.kill()
    parent.wait()
    try:
        wait_until(lambda: not running(ready["pid"]))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(ready["pid"], signal.SIGKILL)
    parent.stdin.close()
    parent.stdout.close()
    assert (current_folder(tmp_path / "shard") / "checkpoint-0000002").exists()


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_errors_are_one_line(tmp_path: Path) -> None:
    folder = make_shards(tmp_path, SPEC, 1)[0]
    command = [*PROGRAM, "--folder", str(tmp_path)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert found.returncode == 1 and found.stdout == ""
    assert found.stderr == f"error: {tmp_path} is not a shard folder: it has no shard.json\n"
    for options, message in (
        (["--host", "0.0.0.0"], "needs a token and TLS"),
        (["--tls-key", folder / "shard.json"], "TLS needs both"),
        (["--token-file", tmp_path / "none"], "none cannot be read: No such file"),
        (["--port", "70000"], "cannot listen on"),
    ):
        given = process._parser().parse_args(["--folder", str(folder), *map(str, options)])
        with pytest.raises(BitlaneError, match=message):
            process._serve(given)
