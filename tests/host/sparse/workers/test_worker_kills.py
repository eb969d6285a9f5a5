"""Servers and workers that are killed at random moments of a training: each row counts exactly once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.counting_worker import SPEC, counts_of
from tests.helpers.places import ROOT
from tests.helpers.sparse_servers import ServerProcess, StepClient, make_shards, server_processes

from bitlane.errors import BitlaneError
from bitlane.sparse.servers.rounds import worker_name
from bitlane.sparse.servers.training import TrainingServers

WORKERS, SERVERS = 3, 2
SECONDS = 120


class Team:
    """Worker processes that are started again when they die."""

    def __init__(self, servers: list[ServerProcess], staleness: int):
        self._arguments = [str(WORKERS), str(staleness), *(each.address for each in servers)]
        self.processes = [self._start(index) for index in range(WORKERS)]

    def _start(self, index: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.helpers.counting_worker", str(index), *self._arguments]
        return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)

    def kill(self, index: int) -> None:
        self._end(index, signal.SIGKILL)
        self.processes[index] = self._start(index)

    def stop(self) -> list[str]:
        """Let all end after their last step; return what they wrote on the standard error."""
        for each in self.processes:
            each.send_signal(signal.SIGTERM)
        return [each.communicate(timeout=SECONDS)[1] for each in self.processes]

    def first_error(self) -> str:
        """Wait until a worker ends; return what it wrote on the standard error."""
        until = time.monotonic() + SECONDS
        while all(each.poll() is None for each in self.processes):
            assert time.monotonic() < until, "no worker has ended"
            time.sleep(0.05)
        return next(each for each in self.processes if each.poll() is not None).communicate()[1]

    def _end(self, index: int, number: int) -> None:
        self.processes[index].send_signal(number)
        self.processes[index].communicate(timeout=SECONDS)

    def close(self) -> None:
        for index, each in enumerate(self.processes):
            if each.poll() is None:
                self._end(index, signal.SIGKILL)


def sequences_of(addresses: list[str]) -> list[int]:
    """The steps of each worker that all servers have."""
    with StepClient(addresses) as servers:
        found = [each["sequences"] for each in servers.status()]
    return [min(each.get(worker_name(index), 0) for each in found) for index in range(WORKERS)]


def wait_for_steps(addresses: list[str], before: list[int], more: int) -> None:
    """Wait until each worker has sent so many more steps."""
    until = time.monotonic() + SECONDS
    while any(now < then + more for now, then in zip(sequences_of(addresses), before, strict=True)):
        assert time.monotonic() < until, f"no steps: {sequences_of(addresses)} after {before}"
        time.sleep(0.05)


def train_with_kills(seed: int, folders: list[Path], kills: int, staleness: int, fault: str = "") -> tuple[bool, int]:
    """Return whether each key has its count at the end, and the steps that were sent."""
    draw = random.Random(seed)
    with server_processes(folders, fault=fault) as servers:
        addresses = [each.address for each in servers]
        with TrainingServers(addresses, worker="driver") as driver:
            driver.begin(WORKERS, staleness)
        team = Team(servers, staleness)
        try:
            for _ in range(kills):
                wait_for_steps(addresses, sequences_of(addresses), 2)
                time.sleep(draw.uniform(0, 0.3))
                victim = draw.randrange(SERVERS + WORKERS)
                if victim < SERVERS:
                    servers[victim].kill()
                    servers[victim].start()
                else:
                    team.kill(victim - SERVERS)
                with StepClient(addresses) as client:
                    if draw.random() < 0.2:
                        client.checkpoint()
            wait_for_steps(addresses, sequences_of(addresses), 2)
            assert team.stop() == [""] * WORKERS
        finally:
            team.close()
        with StepClient(addresses) as client:
            places = [client.status()[0]["training"]["places"][str(index)] for index in range(WORKERS)]
            counts, rows = counts_of(places)
            keys = np.array(sorted(counts), np.uint64)
            found = client.weights(keys)[:, 0]
            has_all = np.array_equal(found, [counts[int(key)] for key in keys])
            has_all &= client.dense()["rows"][0] == rows
            has_all &= sum(each["rows"] for each in client.status()) == len(counts)
        return bool(has_all), sum(sequences_of(addresses))


@pytest.mark.parametrize("staleness", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_kills_lose_no_step_and_repeat_none(seed: int, staleness: int, tmp_path: Path) -> None:
    has_all, steps = train_with_kills(seed, make_shards(tmp_path, SPEC, SERVERS, begun=False), 4, staleness)
    assert has_all and steps > 8 * WORKERS


@pytest.mark.slow
@pytest.mark.parametrize("staleness", [0, 2])
def test_a_hundred_kills_lose_no_step_and_repeat_none(seed: int, staleness: int, tmp_path: Path) -> None:
    has_all, steps = train_with_kills(seed, make_shards(tmp_path, SPEC, SERVERS, begun=False), 100, staleness)
    assert has_all and steps > 200 * WORKERS


def test_without_the_log_steps_are_lost(tmp_path: Path) -> None:
    """The control: a server that forgets is found out by its workers."""
    folders = make_shards(tmp_path, SPEC, SERVERS, begun=False)
    with server_processes(folders, fault="without_log") as servers:
        addresses = [each.address for each in servers]
        with TrainingServers(addresses, worker="driver") as driver:
            driver.begin(WORKERS, 2)
        team = Team(servers, 2)
        try:
            wait_for_steps(addresses, [0] * WORKERS, 5)
            servers[0].kill()
            servers[0].start()
            error = team.first_error()  # the others wait for its steps
        finally:
            team.close()
    assert "has lost updates" in error and BitlaneError.__name__ in error
