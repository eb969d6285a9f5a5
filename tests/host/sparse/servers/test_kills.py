"""Servers that die at random moments: no update is lost, and none is applied twice.

Gradients are integers and SGD has the rate 1, so each weight must be exactly minus the sum of what was pushed.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_servers import ServerProcess, make_shards, server_processes

from bitlane.errors import BitlaneError
from bitlane.sparse.parameters.layout import Block
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.servers.client import RemoteParameters
from bitlane.sparse.servers.spec import MatrixSpec, ShardSpec

VALUES = 3
SPEC = ShardSpec((Block(VALUES, SGD(1.0)),), matrices={"bias": MatrixSpec((2,), SGD(1.0))})
UNIVERSE = np.random.default_rng(0).integers(0, 1 << 64, 500, np.uint64)


class Pushing:
    """One worker's random updates, and the sums that must come out."""

    def __init__(self, seed: int):
        self._draw = np.random.default_rng(seed)
        self.sums = np.zeros((len(UNIVERSE), VALUES), np.float32)
        self.bias = np.zeros(2, np.float32)
        self.known = np.zeros(len(UNIVERSE), np.bool_)
        self.pushes = 0
        self.ended = False

    def step(self, parameters: RemoteParameters) -> None:
        """Create rows and push, and now and then matrices."""
        chosen = self._draw.permutation(len(UNIVERSE))[: self._draw.integers(1, 40)]
        found = parameters.pull(UNIVERSE[chosen], create=True)
        assert np.array_equal(found, -self.sums[chosen])
        self.known[chosen] = True
        gradients = self._draw.integers(-3, 4, (len(chosen), VALUES)).astype(np.float32)
        parameters.push(UNIVERSE[chosen], gradients)
        self.sums[chosen] += gradients
        self.pushes += 1
        if self.pushes % 7 == 0:
            gradient = self._draw.integers(-3, 4, 2).astype(np.float32)
            parameters.push_dense({"bias": gradient})
            self.bias += gradient

    def holds(self, parameters: RemoteParameters) -> bool:
        """Whether the servers have exactly the sums, and no other rows."""
        rows = sum(each["rows"] for each in parameters.status())
        same = np.array_equal(parameters.pull(UNIVERSE), -self.sums)
        return bool(same and np.array_equal(parameters.pull_dense()["bias"], -self.bias) and rows == self.known.sum())


def kill_at_random(processes: Sequence[ServerProcess], draw: random.Random, work: Pushing, kills: int) -> None:
    """Kill servers at random times, with two pushes or more from one kill to the next."""
    try:
        for kill in range(kills):
            while work.pushes < 2 * kill and not work.ended:
                time.sleep(0.005)
            time.sleep(draw.uniform(0, 0.4))
            process = draw.choice(processes)
            process.kill()
            process.start()
    finally:
        work.ended = True


def run_with_kills(seed: int, folders: Sequence[Path], kills: int) -> Pushing:
    """Push, and let the servers write checkpoints, while they are killed; check the sums twice."""
    work = Pushing(seed)
    with server_processes(folders) as processes:
        addresses = [each.address for each in processes]
        with RemoteParameters(addresses, deadline=60) as parameters:
            killer = threading.Thread(target=kill_at_random, args=(processes, random.Random(seed), work, kills))
            killer.start()
            try:
                while not work.ended:
                    work.step(parameters)
                    if work.pushes % 9 == 0:
                        with contextlib.suppress(BitlaneError):  # killed while it writes
                            parameters.checkpoint()
            finally:
                work.ended = True
                killer.join()
            assert work.holds(parameters)
        for each in processes:
            each.kill()
            each.start()
        with RemoteParameters(addresses) as parameters:
            assert work.holds(parameters)
    return work


def test_five_kills_lose_nothing_and_repeat_nothing(seed: int, tmp_path: Path) -> None:
    work = run_with_kills(seed, make_shards(tmp_path, SPEC, 2), 5)
    assert work.pushes > 7


@pytest.mark.slow
def test_a_hundred_kills_lose_nothing_and_repeat_nothing(seed: int, tmp_path: Path) -> None:
    work = run_with_kills(seed, make_shards(tmp_path, SPEC, 2), 100)
    assert work.pushes > 150


def push_until_dead(folder: Path, fault: str, steps: int) -> tuple[bool, str]:
    """Push to a server with a fault, which dies at its 20th commit; another follows, with the rest of the fault.

    Returns
    -------
    holds : bool
        Whether the sums are right.
    error : str
        What the client raised, if anything.
    """
    work, rest, error = Pushing(1), fault.partition(",")[2], ""
    with server_processes([folder], fault=fault) as processes:
        process = processes[0]

        def restart() -> None:
            process.process.wait()
            process._fault = rest
            process.start()

        watcher = threading.Thread(target=restart)
        watcher.start()
        with RemoteParameters([process.address], deadline=60) as parameters:
            try:
                for _ in range(steps):
                    work.step(parameters)
            except (BitlaneError, AssertionError) as raised:
                error = str(raised)
        watcher.join()
        with RemoteParameters([process.address]) as parameters:
            return work.holds(parameters), error


def test_a_death_between_commit_and_answer_repeats_nothing(tmp_path: Path) -> None:
    assert push_until_dead(make_shards(tmp_path, SPEC, 1)[0], "dying_before_answer", 30) == (True, "")


def test_without_deduplication_updates_are_repeated(tmp_path: Path) -> None:
    """The control: the test above can fail."""
    folder = make_shards(tmp_path, SPEC, 1)[0]
    holds, _ = push_until_dead(folder, "dying_before_answer,without_sequences", 30)
    assert not holds


def test_without_the_log_updates_are_lost_and_the_client_says_so(tmp_path: Path) -> None:
    folder = make_shards(tmp_path, SPEC, 1)[0]
    holds, error = push_until_dead(folder, "dying_before_answer,without_log", 30)
    assert not holds and "has lost updates" in error


@pytest.mark.parametrize("fault", ["dying_in_checkpoint", "dying_after_checkpoint"])
def test_a_death_in_a_checkpoint_loses_nothing(tmp_path: Path, fault: str) -> None:
    """Before the checkpoint has its name, and after it, with the log that it covers still there."""
    folder, work = make_shards(tmp_path, SPEC, 1)[0], Pushing(2)
    with server_processes([folder], fault=fault) as processes:
        process = processes[0]
        with RemoteParameters([process.address], deadline=60) as parameters:
            for _ in range(5):
                work.step(parameters)
            with pytest.raises(BitlaneError, match="connection lost"):
                parameters.checkpoint()
            process.process.wait()
            segments = sorted(path.name for path in (folder / "log").iterdir())
            assert len(segments) == 2
            process._fault = ""
            process.start()
            for _ in range(5):
                work.step(parameters)
            assert work.holds(parameters)
            parameters.checkpoint()
            assert len(list((folder / "log").iterdir())) == 1
            assert len(list(folder.glob("checkpoint-*"))) == 1 and not (folder / ".checkpoint-part").exists()
