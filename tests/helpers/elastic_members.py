"""A coordinator and members as processes, for `tests/host/compress/elastic`: they train, report, die and stop."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait

import numpy as np
import torch
from tests.helpers.ddp_scenes import error_text
from tests.helpers.places import ROOT
from torch import nn

from bitlane.compress import ElasticDiLoCo
from bitlane.compress.rank_state import state_bytes, state_of_bytes

EVERY, RATE = 3, 0.05
DEADLINE = 90.0  # seconds, on a machine with other work
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.helpers.elastic_warm"])


@dataclass(frozen=True)
class Plan:
    """What a member does.

    Attributes
    ----------
    steps : int
        Inner steps until it closes.
    gates : tuple of int
        After the rounds at these steps it waits until the test lets it go.
    dies_before : int or None
        The inner step before which it kills itself.
    signal_in : tuple of int, or None
        Step of a round, and how many of its exchanges it makes before `signal`; -1: before it votes, -2: after it.
    leaves_after : int or None
        The inner step after which it leaves.
    poison : int or None
        The inner step after which a parameter is NaN.
    state : bytes
        A state from which it continues.
    """

    steps: int = 12
    seed: int = 7
    gates: tuple[int, ...] = ()
    dies_before: int | None = None
    signal_in: tuple[int, int] | None = None
    signal: int = signal.SIGKILL
    leaves_after: int | None = None
    poison: int | None = None
    state: bytes = b""
    build_seed: int = 0
    settings: dict = field(default_factory=dict)


def build(seed):
    """Return a network of 1,803 values: four groups of the codecs, so that several ranks own a part of an average."""
    model = nn.Sequential(nn.Linear(5, 200), nn.Tanh(), nn.Linear(200, 3))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for each in model.parameters():
            each.copy_(torch.rand(each.shape, generator=generator) - 0.5)
    return model


def inner_step(model, seed, name, step):
    """Make an inner step that depends on the parameters, the name and the step; its optimizer has no state."""
    generator = torch.Generator().manual_seed((10_000 * seed + 100 * ord(name[0]) + step) % 2**63)
    x, y = torch.randn(4, 5, generator=generator), torch.randn(4, 3, generator=generator)
    model.zero_grad()
    (model(x) - y).square().mean().backward()
    with torch.no_grad():
        for each in model.parameters():
            each -= RATE * each.grad


def member(connection, address, name, plan):
    """Train in a process of its own; report each round that counted: step, members, digest, parameters."""
    torch.set_num_threads(1)
    model = build(plan.build_seed)
    text = error_text(lambda: train(connection, address, name, plan, model))
    connection.send(("ended", text))
    connection.close()


def train(connection, address, name, plan, model):
    state = state_of_bytes(plan.state) if plan.state else None
    with ElasticDiLoCo(model, address, every=EVERY, name=name, state=state, **plan.settings) as diloco:
        connection.send(("joined", diloco.inner_steps, diloco.members))
        if plan.signal_in is not None:
            interrupt(diloco, *plan.signal_in, plan.signal)
        while diloco.inner_steps < plan.steps:
            step = diloco.inner_steps + 1
            if plan.dies_before == step:
                os.kill(os.getpid(), signal.SIGKILL)
            inner_step(model, plan.seed, name, step)
            if plan.poison == step:
                with torch.no_grad():
                    next(model.parameters())[0, 0] = torch.nan
            rounds = diloco.stats.rounds
            diloco.step()
            if plan.leaves_after == step:
                diloco.leave()
                connection.send(("left", diloco.inner_steps))
                return
            if diloco.stats.rounds > rounds:
                copies = torch.cat([each.vector for each in diloco._state.fragments]).numpy()
                seen = diloco.inner_steps, diloco.round_members, diloco.digest(), copies
                connection.send(("round", *seen))
                if diloco.inner_steps in plan.gates:
                    connection.recv()
        connection.send(("stats", diloco.stats))
        connection.send(("state", state_bytes(diloco)))


def interrupt(diloco, due, exchanges, number):
    """Let this process get a signal in a round, once."""
    membership, made = diloco._membership, [0]
    real_send, real_average = membership.send, diloco._average

    def send(kind, **content):
        if kind == "voted" and exchanges == -1 and made[0] == 0 and diloco.inner_steps == due:
            made[0] = 1
            os.kill(os.getpid(), number)
        real_send(kind, **content)
        if kind == "voted" and exchanges == -2 and made[0] == 0 and diloco.inner_steps == due:
            made[0] = 1
            os.kill(os.getpid(), number)

    def average(fragment, step):
        transport = membership.transport
        if step == due and transport is not None and exchanges >= 0:
            real = transport.exchange

            def exchange(buffers, lengths):
                if made[0] == exchanges:
                    os.kill(os.getpid(), number)
                made[0] += 1
                return real(buffers, lengths)

            transport.exchange = exchange
        return real_average(fragment, step)

    membership.send, diloco._average = send, average


class Crew:
    """A coordinator, and the members that a test starts.

    Parameters
    ----------
    needed : int
        Members with which the training begins.
    silence : float
        Seconds of the coordinator.
    """

    def __init__(self, needed, silence=20.0, patience=60.0):
        self.options = ["--members", needed, "--silence", silence, "--patience", patience]
        self.port, self.lines, self._changed = 0, [], threading.Condition()
        self.members, self.reports, self.connections = {}, {}, {}
        self.start_coordinator()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in self.members.values():
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGCONT)
            each.kill()
            each.join()
        self.coordinator.kill()
        self.coordinator.wait()
        for each in self._readers:
            each.join()

    def start_coordinator(self):
        command = [sys.executable, "-m", "bitlane.compress.elastic", *map(str, self.options), "--port", str(self.port)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        self.coordinator = subprocess.Popen(command, cwd=ROOT, **pipes)
        self._readers = [threading.Thread(target=self._read, args=(self.coordinator,), daemon=True)]
        self._readers[0].start()
        self.port = int(self.line("listening on port").split()[-1])

    def _read(self, process):
        for line in process.stdout:
            with self._changed:
                self.lines.append(line.strip())
                self._changed.notify_all()
        process.stdout.close()

    def line(self, begin, number=1):
        """Return the line of the coordinator with this begin, when it has printed so many."""
        with self._changed:
            found = lambda: [line for line in self.lines if line.startswith(begin)]  # noqa: E731
            assert self._changed.wait_for(lambda: len(found()) >= number, DEADLINE), (begin, self.lines)
            return found()[number - 1]

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def start(self, name, plan):
        here, there = PROCESSES.Pipe()
        process = PROCESSES.Process(target=member, args=(there, self.address, name, plan), daemon=True)
        process.start()
        there.close()
        self.members[name], self.connections[name] = process, here
        self.reports.setdefault(name, [])

    def let_go(self, *names):
        for name in names:
            self.connections[name].send("go on")

    def signal(self, name, number):
        os.kill(self.members[name].pid, number)

    def until(self, name, kind, step=None):
        """Return the report of a member of this kind, and after this step, when it comes."""
        deadline = time.monotonic() + DEADLINE
        while True:
            for report in self.reports[name]:
                if report[0] == kind and step in (None, report[1]):
                    return report
            assert self.read(deadline - time.monotonic()), (name, kind, step, self.summary())

    def finish(self):
        """Read the reports of all members until they have ended."""
        deadline = time.monotonic() + DEADLINE
        while self.connections:
            assert self.read(deadline - time.monotonic()), self.summary()

    def read(self, seconds):
        ready = wait(list(self.connections.values()), max(0.0, seconds))
        for name, connection in list(self.connections.items()):
            if connection in ready:
                try:
                    self.reports[name].append(connection.recv())
                except (EOFError, OSError):
                    del self.connections[name]
        return bool(ready)

    def summary(self):
        return {name: [each[:3] for each in found] for name, found in self.reports.items()}, self.lines

    def rounds(self):
        """Return the members and the parameters of each round by its step; check that all members have the same."""
        found = {}
        for reports in self.reports.values():
            for _, step, members, digest, parameters in (each for each in reports if each[0] == "round"):
                first = found.setdefault(step, (members, digest, parameters))
                assert first[:2] == (members, digest), (step, first[:2], members, digest)
                assert np.array_equal(first[2], parameters)
        return {step: (found[step][0], found[step][2]) for step in sorted(found)}

    def stats(self, name):
        return self.until(name, "stats")[1]

    def error(self, name):
        return self.until(name, "ended")[1]
