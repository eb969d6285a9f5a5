"""Servers that die at random moments: no update is lost, and none is applied twice.

Gradients are integers and SGD has the rate 1, so each weight must be exactly minus the sum of what was sent.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.sparse_servers import ServerProcess, StepClient, make_shards, server_processes

from bitlane.errors import BitlaneError
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.servers.connection import Connection
from bitlane.sparse.servers.epochs import current_folder
from bitlane.sparse.servers.spec import MatrixSpec, ShardSpec

VALUES = 3
SPEC = ShardSpec((ParameterBlock(VALUES, SGD(1.0)),), matrices={"bias": MatrixSpec((2,), SGD(1.0))})
UNIVERSE = np.random.default_rng(0).integers(0, 1 << 64, 500, np.uint64)


class Stepping:
    """One worker's random updates, and the sums that must come out."""

    def __init__(self, seed: int):
        self._draw = np.random.default_rng(seed)
        self.sums = np.zeros((len(UNIVERSE), VALUES), np.float32)
        self.bias = np.zeros(2, np.float32)
        self.known = np.zeros(len(UNIVERSE), np.bool_)
        self.steps = 0
        self.ended = False

    def step(self, client: StepClient) -> None:
        """Read rows and send a step, now and then with matrices."""
        chosen = self._draw.permutation(len(UNIVERSE))[: self._draw.integers(1, 40)]
        assert np.array_equal(client.weights(UNIVERSE[chosen]), -self.sums[chosen])
        self.known[chosen] = True
        gradients = self._draw.integers(-3, 4, (len(chosen), VALUES)).astype(np.float32)
        self.steps += 1
        bias = self._draw.integers(-3, 4, 2).astype(np.float32) * (self.steps % 7 == 0)
        client.send(UNIVERSE[chosen], gradients, dense={"bias": bias})
        self.sums[chosen] += gradients
        self.bias += bias

    def holds(self, client: StepClient) -> bool:
        """Whether the servers have exactly the sums, and no other rows."""
        rows = sum(each["rows"] for each in client.status())
        same = np.array_equal(client.weights(UNIVERSE), -self.sums)
        return bool(same and np.array_equal(client.dense()["bias"], -self.bias) and rows == self.known.sum())


def kill_at_random(processes: Sequence[ServerProcess], draw: random.Random, work: Stepping, kills: int) -> None:
    """Kill servers at random times, with two steps or more from one kill to the next."""
    try:
        for kill in range(kills):
            while work.steps < 2 * kill and not work.ended:
                time.sleep(0.005)
            time.sleep(draw.uniform(0, 0.4))
            process = draw.choice(processes)
            process.kill()
            process.start()
    finally:
        work.ended = True


def run_with_kills(seed: int, folders: Sequence[Path], kills: int) -> Stepping:
    """Send steps, and let the servers write checkpoints, while they are killed; check the sums twice."""
    work = Stepping(seed)
    with server_processes(folders) as processes:
        addresses = [each.address for each in processes]
        with StepClient(addresses, deadline=60) as client:
            killer = threading.Thread(target=kill_at_random, args=(processes, random.Random(seed), work, kills))
            killer.start()
            try:
                while not work.ended:
                    work.step(client)
                    if work.steps % 9 == 0:
                        with contextlib.suppress(BitlaneError):  # killed while it writes
                            client.checkpoint()
            finally:
                work.ended = True
                killer.join()
            assert work.holds(client)
        for each in processes:
            each.kill()
            each.start()
        with StepClient(addresses) as client:
            assert work.holds(client)
    return work


def test_five_kills_lose_nothing_and_repeat_nothing(seed: int, tmp_path: Path) -> None:
    work = run_with_kills(seed, make_shards(tmp_path, SPEC, 2), 5)
    assert work.steps > 7


def test_a_server_that_restarts_between_hello_and_the_first_update(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The channel reconnects by itself to a process that has had no hello; the client says it again."""
    work, hello, restarts = Stepping(seed), Connection.hello, [2, 1]
    with server_processes(make_shards(tmp_path, SPEC, 1)) as (process,), StepClient([process.address]) as client:
        work.step(client)

        def restart_after_hello(connection: Connection, until: float) -> dict[str, Any]:
            answer = hello(connection, until)
            if restarts and connection in client._updaters:
                restarts.pop()
                process.kill()
                process.start()
            return answer

        monkeypatch.setattr(Connection, "hello", restart_after_hello)
        process.kill()
        process.start()
        work.step(client)
        assert not restarts and work.holds(client)


@pytest.mark.slow
def test_a_hundred_kills_lose_nothing_and_repeat_nothing(seed: int, tmp_path: Path) -> None:
    work = run_with_kills(seed, make_shards(tmp_path, SPEC, 2), 100)
    assert work.steps > 150


def step_until_dead(folder: Path, fault: str, steps: int) -> tuple[bool, str]:
    """Send steps to a server with a fault, which dies at its 20th commit; another follows, with the rest of the fault.

    Returns
    -------
    holds : bool
        Whether the sums are right.
    error : str
        What the client raised, if anything.
    """
    work, rest, error = Stepping(1), fault.partition(",")[2], ""
    with server_processes([folder], fault=fault) as processes:
        process = processes[0]

        def restart() -> None:
            process.process.wait()
            process._fault = rest
            process.start()

        watcher = threading.Thread(target=restart)
        watcher.start()
        with StepClient([process.address], deadline=60) as client:
            try:
                for _ in range(steps):
                    work.step(client)
            except (BitlaneError, AssertionError) as raised:
                error = str(raised)
        watcher.join()
        with StepClient([process.address]) as client:
            return work.holds(client), error


def test_a_death_between_commit_and_answer_repeats_nothing(tmp_path: Path) -> None:
    assert step_until_dead(make_shards(tmp_path, SPEC, 1)[0], "dying_before_answer", 30) == (True, "")


def test_without_deduplication_updates_are_repeated(tmp_path: Path) -> None:
    """The control: the test above can fail."""
    folder = make_shards(tmp_path, SPEC, 1)[0]
    holds, _ = step_until_dead(folder, "dying_before_answer,without_sequences", 30)
    assert not holds


def test_without_the_log_updates_are_lost_and_the_client_says_so(tmp_path: Path) -> None:
    folder = make_shards(tmp_path, SPEC, 1)[0]
    holds, error = step_until_dead(folder, "dying_before_answer,without_log", 30)
    assert not holds and "has lost updates" in error


@pytest.mark.parametrize("fault", ["dying_in_checkpoint", "dying_after_checkpoint"])
def test_a_death_in_a_checkpoint_loses_nothing(tmp_path: Path, fault: str) -> None:
    """Before the checkpoint has its name, and after it, with the log that it covers still there."""
    folder, work = make_shards(tmp_path, SPEC, 1)[0], Stepping(2)
    with server_processes([folder], fault=fault) as processes:
        process = processes[0]
        with StepClient([process.address], deadline=60) as client:
            for _ in range(5):
                work.step(client)
            with pytest.raises(BitlaneError, match="connection lost"):
                client.checkpoint()
            process.process.wait()
            segments = sorted(path.name for path in (current_folder(folder) / "log").iterdir())
            assert len(segments) == 2
            process._fault = ""
            process.start()
            for _ in range(5):
                work.step(client)
            assert work.holds(client)
            client.checkpoint()
            assert len(list((current_folder(folder) / "log").iterdir())) == 1
            assert (
                len(list(current_folder(folder).glob("checkpoint-*"))) == 1
                and not (current_folder(folder) / ".checkpoint-part").exists()
            )
