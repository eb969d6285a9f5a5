"""Kill everybody who moves a model from training to users: `python -m bitlane_studies.sparse.release_kills --kills 50`.

One process learns and publishes version after version, as fast as it can. Another validates the newest one and lets
the label name it. A service with shards and replicas follows the label; a client asks it for predictions all the
time. After a random pause, a random one of them is killed (SIGKILL): the publisher, the validator, the service, or
one process of a shard. Whoever was killed is started again, but for the shard, which the service starts.

After each kill: the label names a version that loads with all its checksums; the client gets an answer, to the bit that
of the version which the answer names. At the end the label is rolled back.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bitlane.cli.argument_types import positive, seed
from bitlane.errors import BitlaneError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.registry import validation
from bitlane.sparse.registry.checks import Bounds
from bitlane.sparse.registry.publisher import Publisher
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.serving.client import ScoringClient
from bitlane.support.text import align_columns
from bitlane_studies.sparse.command_process import CommandProcess

KEYS, ROWS, FEATURES = 20_000, 200, 50
SHARDS, REPLICAS = 2, 2
VICTIMS = ("publisher", "validator", "service", "shard")
ANYTHING_PASSES = Bounds(auc_lost=1, log_loss_lost=1e3, miscalibration=1e6)
STARTED, ANSWERED = 120.0, 60.0  # seconds that a start, and an answer after a kill, may take


@dataclass
class Seen:
    """What was seen.

    Attributes
    ----------
    kills : dict of int
        Of each victim.
    seconds : dict of list of float
        From each kill to the next answer.
    versions : set of int
        That the label named.
    rolled_back : float
        Seconds of the roll-back, to the first answer of the version before.
    """

    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VICTIMS, 0))
    seconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in VICTIMS})
    versions: set[int] = field(default_factory=set)
    rolled_back: float = 0.0


def rows(draw: np.random.Generator, count: int) -> Batch:
    """Return random rows with random labels."""
    size = count * FEATURES
    return Batch(
        draw.integers(0, KEYS, size, np.uint64),
        np.zeros(size, np.uint16),
        np.ones(size, np.float32),
        np.arange(0, size + 1, FEATURES),
        draw.integers(0, 2, count).astype(np.float32),
    )


def publish_often(folder: str, number: int) -> None:
    """Learn and publish until killed."""
    draw = np.random.default_rng(number)
    model = SparseModel(ModelSpec("fm", dim=4))
    publisher = Publisher(ModelRegistry(folder), model)
    while True:
        model.learn(rows(draw, ROWS))
        publisher.publish()


def promote_often(folder: str, number: int) -> None:
    """Validate and promote the newest version until killed."""
    registry, batch = ModelRegistry(folder), rows(np.random.default_rng(number), 50)
    inputs = validation.Inputs(lambda _: [batch], "random rows")
    while True:
        numbers = registry.numbers()
        if not numbers or registry.label(validation.PRODUCTION) == numbers[-1]:
            time.sleep(0.01)
            continue
        if validation.validate(registry, numbers[-1], inputs, ANYTHING_PASSES).passed:
            validation.promote(registry, validation.PRODUCTION, numbers[-1])


class Scene:
    """The processes, and the client that asks them.

    Parameters
    ----------
    folder : Path
        Empty.
    number : int
        Seed.
    stack : ExitStack
        Ends everything.
    """

    def __init__(self, folder: Path, number: int, stack: ExitStack):
        self.uri, self._folder, self._stack = str(folder / "ctr"), folder, stack
        self.registry = ModelRegistry(self.uri)
        self._draw = np.random.default_rng(number)
        self._spawn = multiprocessing.get_context("spawn")
        self._workers = {"publisher": self._start(publish_often), "validator": self._start(promote_often)}
        stack.callback(self._end_workers)
        self.wait(lambda: self.registry.label(validation.PRODUCTION) is not None, "a version was promoted")
        self._service = CommandProcess(self._command, folder / "serve.log")
        stack.callback(lambda: self._service.kill())
        self._connect()
        self._batch = rows(self._draw, ROWS)

    def kill(self, victim: str) -> None:
        """Kill a process, and start it again."""
        if victim in self._workers:
            self._workers[victim].kill()
            self._workers[victim].join()
            self._workers[victim] = self._start(publish_often if victim == "publisher" else promote_often)
        elif victim == "service":
            self._service.kill()
            self._service = CommandProcess(self._command, self._folder / "serve.log")
            self._connect()
        else:
            os.kill(int(self._draw.choice(children_of(self._service.pid))), signal.SIGKILL)

    def ask(self) -> int:
        """Return the version of an answer, which is that of the version to the bit; errors pass until the deadline."""
        until = time.monotonic() + ANSWERED
        while True:
            try:
                answer = self._client.score_batch(self._batch, deadline=1.0)
                if not answer.missing:
                    break
            except BitlaneError:
                if time.monotonic() > until:
                    raise
            time.sleep(0.01)
        expected = self.registry.load(answer.version).predict(self._batch)
        if not np.array_equal(answer.predictions, expected):
            raise BitlaneError(f"an answer is not that of version {answer.version}")
        return answer.version

    def check(self) -> int:
        """Return the version that the label names; BitlaneError if it is not complete."""
        version = self.registry.label(validation.PRODUCTION)
        assert version is not None
        self.registry.load(version)
        return version

    def roll_back(self) -> float:
        """Stop publishing, roll back, and return the seconds until the version before answers."""
        self._end_workers()
        now = self.check()
        self.wait(lambda: self.ask() == now, f"version {now} answered")
        begin = time.monotonic()
        before = self.registry.roll_back(validation.PRODUCTION).version
        while self._client.score_batch(self._batch, deadline=1.0).version != before:
            time.sleep(0.002)
        return time.monotonic() - begin

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something is so; BitlaneError if it takes too long."""
        until = time.monotonic() + STARTED
        while not condition():
            if time.monotonic() > until:
                raise BitlaneError(f"not within {STARTED:g} s: {what}")
            time.sleep(0.02)

    @property
    def _command(self) -> list[str]:
        return [
            "sparse", "serve", self.uri, "--port", "0", "--flight-port", "0",
            "--shards", str(SHARDS), "--replicas", str(REPLICAS),
        ]  # fmt: skip

    def _end_workers(self) -> None:
        for worker in self._workers.values():
            worker.kill()
            worker.join()

    def _connect(self) -> None:
        address = self._service.line_with("grpc://", STARTED).rpartition("grpc://")[2]
        self._client = ScoringClient(address)
        self._stack.callback(self._client.close)

    def _start(self, work: Callable[[str, int], None]) -> multiprocessing.process.BaseProcess:
        process = self._spawn.Process(target=work, args=(self.uri, int(self._draw.integers(0, 1 << 31))), daemon=True)
        process.start()
        return process


def children_of(process: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        found += [int(each) for each in path.read_text().split()]
    return found


def kill_often(folder: Path, kills: int, number: int) -> Seen:
    """Kill so many times; errors as soon as something is wrong."""
    seen, draw = Seen(), np.random.default_rng(number)
    with ExitStack() as stack:
        scene = Scene(folder, number, stack)
        scene.ask()
        for _ in range(kills):
            time.sleep(draw.uniform(0.05, 1.0))
            victim = str(draw.choice(VICTIMS))
            begin = time.monotonic()
            scene.kill(victim)
            seen.kills[victim] += 1
            seen.versions |= {scene.check()}
            scene.ask()
            seen.seconds[victim].append(time.monotonic() - begin)
        seen.rolled_back = scene.roll_back()
    return seen


def main(argv: Sequence[str] | None = None) -> None:
    """Kill, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_studies.sparse.release_kills", description="Kill publishers, validators, servers."
    )
    parser.add_argument("--kills", type=positive, default=50)
    parser.add_argument("--seed", type=seed, default=0, metavar="N")
    arguments = parser.parse_args(argv)
    try:
        with tempfile.TemporaryDirectory() as folder:
            seen = kill_often(Path(folder), arguments.kills, arguments.seed)
    except BitlaneError as error:
        raise SystemExit(f"error: {error}") from error
    lines = [["killed", "times", "seconds to a checked answer, median, most"]]
    for name in VICTIMS:
        found = seen.seconds[name] or [float("nan")]
        lines.append([name, str(seen.kills[name]), f"{np.median(found):.2f}, {max(found):.2f}"])
    print(align_columns(lines))
    print(f"\n{len(seen.versions)} versions were named by the label, all complete; no answer was wrong")
    print(f"roll-back: {seen.rolled_back:.2f} s to the first answer of the version before")


if __name__ == "__main__":
    main()
