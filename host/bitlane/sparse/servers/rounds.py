"""The clocks of the workers of a training: who may read, and when steps are applied.

A worker at clock c has sent its steps of all clocks below c. With staleness s it may read at clock c once every
worker's clock is at least c - s: what it reads has all steps stamped c - s - 1 or less (stale synchronous parallel: Ho
et al., "More effective distributed ML via a stale synchronous parallel parameter server", 2013).

With staleness 0 the steps of a clock are held until all workers have sent theirs, and are then applied in the order of
the workers: each read at clock c has exactly the steps below c (bulk-synchronous), and each run has the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bitlane.errors import DataError
from bitlane.sparse.servers.steps import WorkerStep

MOST_WORKERS = 1 << 16


def worker_name(index: int | str) -> str:
    """Return the name under which a worker of a training sends its steps."""
    return f"worker-{index}"


class TrainingRounds:
    """Clocks, offsets and held steps of one shard. The shard's lock guards it.

    Attributes
    ----------
    workers : int
        Number of workers, 0 before a training begins.
    staleness : int
    clocks : dict from int to int
        Clock of each worker.
    left : set of int
        Workers that have sent their last step.
    offsets : dict from int to dict
        Where each worker resumes reading.
    held : dict from int to (dict from int to WorkerStep)
        Steps that wait, by clock and worker.
    """

    def __init__(self) -> None:
        self.workers = self.staleness = 0
        self.clocks: dict[int, int] = {}
        self.left: set[int] = set()
        self.offsets: dict[int, dict[str, Any]] = {}
        self.held: dict[int, dict[int, WorkerStep]] = {}

    def begin(self, workers: int, staleness: int, clock: int) -> list[WorkerStep]:
        """Begin or resume a training: all workers are at `clock`. Return the held steps, which are due now."""
        self.workers, self.staleness = workers, staleness
        self.clocks, self.left = dict.fromkeys(range(workers), clock), set()
        due = [step for at in sorted(self.held) for _, step in sorted(self.held[at].items())]
        self.held = {}
        return due

    @property
    def oldest(self) -> int:
        """The smallest clock of the workers that have not sent their last step."""
        running = [clock for worker, clock in self.clocks.items() if worker not in self.left]
        return min(running, default=self.newest)

    @property
    def newest(self) -> int:
        """The largest clock of all workers."""
        return max(self.clocks.values(), default=0)

    def may_read(self, clock: int) -> bool:
        """Return whether a worker at `clock` may read."""
        return len(self.left) == self.workers or self.oldest >= clock - self.staleness

    def lagging(self, clock: int) -> list[int]:
        """Return the workers for which a worker at `clock` waits."""
        return [
            worker
            for worker, at in sorted(self.clocks.items())
            if worker not in self.left and at < clock - self.staleness
        ]

    def check(self, step: WorkerStep) -> None:
        """Raise DataError if a step does not belong to the training."""
        if step.worker >= self.workers:
            raise DataError(f"got a step of worker {step.worker}, but the training has {self.workers} workers")

    def advance(self, step: WorkerStep) -> None:
        """Set the clock of the step's worker, if the step came before too: other servers may have missed it."""
        self.clocks[step.worker] = max(self.clocks[step.worker], step.clock + 1)
        if step.last:
            self.left.add(step.worker)

    def accept(self, step: WorkerStep) -> list[WorkerStep]:
        """Take a new step; return the steps that are due now, in order."""
        self.advance(step)
        self.offsets[step.worker] = dict(step.offset)
        if self.staleness:
            return [step]
        self.held.setdefault(step.clock, {})[step.worker] = step
        return self.release()

    def release(self) -> list[WorkerStep]:
        """Take the held steps of the clocks that all workers have behind them, in the order of clocks and workers."""
        due: list[WorkerStep] = []
        for clock in sorted(self.held):
            if len(self.left) < self.workers and self.oldest <= clock:
                break
            due += [step for _, step in sorted(self.held.pop(clock).items())]
        return due

    def clock_of(self, worker: str) -> int:
        """Return the clock of a worker by its name, or the newest clock for a client that is no worker."""
        return next((clock for index, clock in self.clocks.items() if worker_name(index) == worker), self.newest)

    def offset_of(self, worker: str) -> dict[str, Any]:
        """Return where the worker of this name resumes reading; empty before its first step."""
        return next((offset for index, offset in self.offsets.items() if worker_name(index) == worker), {})

    def state(self) -> dict[str, Any]:
        """Return all but the held steps, as plain JSON."""
        return {
            "workers": self.workers,
            "staleness": self.staleness,
            "clocks": [self.clocks[worker] for worker in range(self.workers)],
            "left": sorted(self.left),
            "places": {str(worker): offset for worker, offset in self.offsets.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a `state`."""
        self.workers, self.staleness = int(state["workers"]), int(state["staleness"])
        self.clocks = dict(enumerate(int(clock) for clock in state["clocks"]))
        self.left = {int(worker) for worker in state["left"]}
        self.offsets = {int(worker): dict(offset) for worker, offset in state["places"].items()}
