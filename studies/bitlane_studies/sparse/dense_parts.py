"""Compare matrices on servers with all-reduce for dense gradients: `python -m bitlane_studies.sparse.dense_parts`.

The dense part of a DNN is trained by workers, each a process, with gradients that are drawn beforehand. A clock lasts
from a worker's gradients to the weights that contain the gradients of all workers. The ways take turns, some clocks
each, so that a busy machine is unkind to all. The kernel counts the bytes at the workers' sockets.

Then one worker is killed, or stopped so that it is silent, in the middle of each of the first three ways. With servers,
a new process takes its place; an all-reduce has no place to take.

Needs torch: `pip install 'bitlane[sparse,torch]'`.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.compress.registry import parse_compressor
from bitlane.errors import BitlaneError
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.servers.training import TrainingServers
from bitlane.sparse.servers.updates import join_dense
from bitlane.sparse.workers.shards import create_shard
from bitlane.support.text import align_columns
from bitlane_studies.sparse.dense_exchange import PLAIN, SERVERS
from bitlane_studies.sparse.dense_workers import BATCHES, Ran, Run, WorkerPlan, Workers, gradients_of
from bitlane_studies.sparse.servers import start_server

from ..command import run

BLOCK = 25  # clocks of a way before the next has its turn
WARM_UP = 10  # clocks of each way that do not count
PAUSE = 2.0  # seconds between the death of a worker and the start of another
LONG = 600.0  # seconds after which the study gives up


@dataclass(frozen=True)
class Cost:
    """What a way costs.

    Attributes
    ----------
    milliseconds : float64 [workers * clocks]
        Of each clock on each worker.
    sent, received : float
        Bytes of a worker and clock.
    """

    milliseconds: NDArray[np.float64]
    sent: float
    received: float


@dataclass(frozen=True)
class Death:
    """What the other workers did when one was killed or silent.

    Attributes
    ----------
    clocks : tuple of int
        Of the other workers, at the end.
    seconds : tuple of float
        The longest clock of each of them, one with an error included.
    back : float or None
        Seconds until another process had the place of the worker that died; None if none took it.
    outcome : str
    """

    clocks: tuple[int, ...]
    seconds: tuple[float, ...]
    back: float | None
    outcome: str


def expected_weights(plan: WorkerPlan, clocks: int) -> NDArray[np.float32]:
    """Return the weights after some clocks with servers, computed here: each worker's step once, in their order."""
    matrices = SparseModel(plan.spec).matrices
    gradients = [gradients_of(plan, worker) for worker in range(plan.workers)]
    for clock in range(clocks):
        for each in gradients:
            for name, matrix in matrices.items():
                matrix.push(each[clock % BATCHES][name])
    return join_dense({name: matrix.pull() for name, matrix in matrices.items()})


@contextmanager
def started(plan: WorkerPlan, servers: int) -> Iterator[Workers]:
    """Start new servers, if a way needs them, and the workers of a plan."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        addresses = []
        for server in range(servers if SERVERS in plan.ways else 0):
            create_shard(folder / str(server), plan.spec, server, servers)
            addresses.append(start_server(folder / str(server), False, stack))
        if addresses:
            with TrainingServers(addresses, worker="driver") as driver:
                driver.begin(plan.workers, 0)
        plan = replace(plan, addresses=tuple(addresses), store=folder / "store")
        yield stack.enter_context(Workers(plan))


def measure(workers: Workers, clocks: int) -> dict[str, Cost]:
    """Return the cost of each way, from `clocks` clocks.

    Raises
    ------
    BitlaneError
        A worker stopped, or workers have different weights.
    """
    ways, count = workers.plan.ways, workers.plan.workers
    times: dict[str, list[float]] = {way: [] for way in ways}
    moved = {way: np.zeros(2) for way in ways}
    for way in ways:
        workers.run(Run(way, WARM_UP), LONG)
    for first in range(0, clocks, BLOCK):
        until = min(first + BLOCK, clocks)
        for way in ways:
            before = workers.transferred()
            found = workers.run(Run(way, WARM_UP + until), LONG)
            moved[way] += workers.transferred() - before
            times[way] += [each for ran in found for each in ran.milliseconds]
            if any(not np.array_equal(ran.weights, found[0].weights) for ran in found):
                raise BitlaneError(f"{way}: the workers have different weights")
    return {way: Cost(np.array(times[way]), *(moved[way] / (count * clocks))) for way in ways}


def die(workers: Workers, way: str, number: int, clocks: int) -> Death:
    """Let the last worker send itself the signal `number` at half of the clocks; see what the others do."""
    plan, victim = workers.plan, workers.plan.workers - 1
    for worker in range(plan.workers):
        workers.ask(worker, Run(way, clocks, number if worker == victim else None, clocks // 2))
    os.waitid(os.P_PID, workers.processes[victim].pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
    begin = time.perf_counter()
    if way != SERVERS:
        return _death([workers.answer(worker, LONG) for worker in range(victim)], None)
    time.sleep(PAUSE)
    early = [worker for worker in range(victim) if workers.answered(worker)]
    if early:
        raise BitlaneError(f"worker {early[0]} went on without worker {victim}, with staleness 0")
    workers.replace(victim)
    back = time.perf_counter() - begin
    workers.ask(victim, Run(way, clocks))
    found = [workers.answer(worker, LONG) for worker in range(plan.workers)]
    death = _death(found[:victim], back)
    same = all(np.array_equal(ran.weights, expected_weights(plan, clocks)) for ran in found)
    return replace(death, outcome=f"{death.outcome}; {'the' if same else 'NOT the'} bits of an undisturbed run")


def _death(found: Sequence[Ran], back: float | None) -> Death:
    errors = [_short(each.error) for each in found if each.error]
    seconds = tuple(max(each.error_milliseconds, *each.milliseconds, 0) / 1e3 for each in found)
    outcome = f"{len(errors)} of {len(found)} fail: {errors[0]}" if errors else f"{len(found)} of {len(found)} go on"
    return Death(tuple(each.clock for each in found), seconds, back, outcome)


def _short(error: str) -> str:
    """Return the first sentence of an error of gloo, without the place in its code."""
    return re.sub(r"\[/[^]]*\] ", "", error).split(". ")[0]


def cost_table(costs: dict[str, Cost], title: str) -> str:
    """Return the table of the costs."""
    cells: list[tuple[str, ...]] = [(title, "p50, ms", "p99, ms", "KB sent", "KB received")]
    for way, cost in costs.items():
        numbers = (*np.quantile(cost.milliseconds, (0.5, 0.99)), cost.sent / 1e3, cost.received / 1e3)
        cells.append((way, *(f"{each:.2f}" for each in numbers)))
    return align_columns(cells)


def death_table(deaths: dict[tuple[str, str], Death]) -> str:
    """Return the table of the deaths, by way and what happened to the worker."""
    cells: list[tuple[str, ...]] = [("way", "one worker is", "others wait, s", "it is back, s", "their clocks", "end")]
    for (way, what), death in deaths.items():
        clocks = " ".join(map(str, death.clocks))
        back = "-" if death.back is None else f"{death.back:.1f}"
        seconds = " ".join(f"{each:.1f}" for each in death.seconds)
        cells.append((way, what, seconds, back, clocks, death.outcome))
    return align_columns(cells, left=len(cells[0]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure both ways, and print two tables."""
    options = _options(arguments)
    spec = ModelSpec("dnn", fields=options.fields, dim=8, hidden=options.hidden, batch_rows=256, seed=options.seed)
    ways = (SERVERS, PLAIN, *options.compressors)
    plan = WorkerPlan(spec, options.workers, ways, (), Path(), options.timeout, options.seed)
    with started(plan, options.servers) as workers:
        values = sum(int(np.prod(each.shape)) for each in SparseModel(spec).matrices.values())
        title = f"{values:,} weights, {options.workers} workers, {options.servers} servers"
        print(cost_table(measure(workers, options.clocks), title), flush=True)
    deaths = {}
    for way in ways[:3] if options.deaths else ():  # all compressors have the same transport
        for what, number in (("killed", signal.SIGKILL), ("silent", signal.SIGSTOP)):
            with started(replace(plan, ways=(way,)), options.servers) as workers:
                deaths[way, what] = die(workers, way, number, 2 * BLOCK)
    if deaths:
        print(death_table(deaths))


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(description="Compare matrices on servers with all-reduce for dense gradients.")
    parser.add_argument(
        "compressors",
        nargs="*",
        default=("qsgd:bits=8", "efsign"),
        metavar="NAME[:SETTINGS]",
        help="of more all-reduces, as in bitlane train-ddp --compress (default: qsgd:bits=8 efsign)",
    )
    parser.add_argument("--fields", type=int, default=10, metavar="N", help="of the DNN (default: 10)")
    parser.add_argument("--hidden", default="64,32", metavar="N,N", help="sizes of its layers (default: 64,32)")
    parser.add_argument("--workers", type=int, default=4, metavar="N", help="default: 4")
    parser.add_argument("--servers", type=int, default=2, metavar="N", help="default: 2")
    parser.add_argument("--clocks", type=int, default=300, metavar="N", help="of each way (default: 300)")
    parser.add_argument(
        "--timeout", type=float, default=30, metavar="S", help="seconds for which a worker waits (default: 30)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of weights and gradients (default: 0)")
    parser.add_argument("--no-deaths", dest="deaths", action="store_false", help="print the first table only")
    options = parser.parse_args(arguments)
    if options.workers < 2 or options.servers < 1 or options.clocks < 1 or options.timeout <= 0:
        parser.error("--workers must be at least 2, --servers and --clocks at least 1, --timeout above 0")
    try:
        options.hidden = tuple(int(each) for each in options.hidden.split(","))
        for text in options.compressors:
            parse_compressor(text)
    except (ValueError, BitlaneError) as error:
        parser.error(str(error))
    return options


if __name__ == "__main__":
    run(main)
