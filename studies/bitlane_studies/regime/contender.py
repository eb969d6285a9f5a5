"""One program in a process of its own, forked from one that holds the table: its answers, their time and memory."""

from __future__ import annotations

import ctypes
import multiprocessing
import resource
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .problems import Doubles, FitProblem

MEMORY_STATUS, RESET_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class FittedModels(NamedTuple):
    """What a program returns.

    Attributes
    ----------
    coef : float array [folds, penalties, targets, n]
        Or one that reshapes to it; in the units of X.
    intercept : float array [folds, penalties, targets]
    bytes_read : int or None
        Of rows, in whatever form, by the whole call; None if the program does not tell.
    """

    coef: Doubles
    intercept: Doubles
    bytes_read: int | None = None


@dataclass(frozen=True)
class Program:
    """A way to solve a problem.

    Attributes
    ----------
    name : str
    fit : callable
        Of the problem, a rung of the ladder, and what `prepare` returned.
    ladder : callable
        Of the problem: settings from quick to exact.
    prepare : callable, optional
        Of the problem: what the program may have before the time begins, such as a learning rate that was tuned, a
        text file, or an encoded table; the page tells it.
    given : str
        What `prepare` gives, in words.
    version : str
    ours : bool
    kin : str
        Programs of equal kin have the same ladder and need about the same rung.
    """

    name: str
    fit: Callable[[FitProblem, Any, Any], FittedModels]
    ladder: Callable[[FitProblem], Sequence[Any]]
    prepare: Callable[[FitProblem], Any] | None = None
    given: str = ""
    version: str = ""
    ours: bool = False
    kin: str = ""


@dataclass(frozen=True)
class TimedAnswer:
    """One call of a program.

    Attributes
    ----------
    seconds, objective : float
    memory : int
        Bytes of memory at the peak of the call above those before it.
    bytes_read : int or None
    """

    seconds: float
    objective: float
    memory: int
    bytes_read: int | None


@dataclass
class ForkedContender:
    """A process that runs one program on one problem, as often as it is asked.

    Parameters
    ----------
    program : Program
    problem : FitProblem
    given : object
        Of an earlier `prepare` of the same program; by default the process prepares it at its start.
    """

    program: Program
    problem: FitProblem
    given: Any = None
    reason: str = field(default="", init=False)  # why the process ended

    def __post_init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, child = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(self.program, self.problem, self.given, child), daemon=True
        )
        self._process.start()
        child.close()

    def prepared(self, seconds: float) -> Any:
        """Wait for the preparation and return what it gave; None if the process ended (see `reason`)."""
        return self._receive(seconds)

    def run(self, rung: Any, seconds: float) -> TimedAnswer | None:
        """Run the program; None if it failed or took more than `seconds` (see `reason`)."""
        if self.reason:
            return None
        self._pipe.send(rung)
        answer: TimedAnswer | None = self._receive(seconds)
        return answer

    def _receive(self, seconds: float) -> Any:
        if self.reason:
            return None
        if not self._pipe.poll(seconds):
            self.stop(f"stopped after {seconds:.3g} s")
            return None
        try:
            answer = self._pipe.recv()
        except EOFError:
            self.stop("the process died")
            return None
        if isinstance(answer, str):
            self.stop(answer)
            return None
        return answer

    def stop(self, reason: str = "done") -> None:
        """End the process."""
        self.reason = self.reason or reason
        self._process.kill()
        self._process.join()


def _serve(program: Program, problem: FitProblem, given: Any, pipe: Any) -> None:
    warnings.simplefilter("ignore")
    try:
        if given is None:
            given = program.prepare(problem) if program.prepare else {}
            pipe.send(given)
        ctypes.CDLL(None).malloc_trim(0)  # what was free before the fork is not the program's
        while True:
            pipe.send(_timed(program, problem, pipe.recv(), given))
    except EOFError:
        return
    except BaseException as error:
        traceback.print_exc()
        pipe.send(f"{type(error).__name__}: {error}".splitlines()[0])


def _timed(program: Program, problem: FitProblem, rung: Any, given: Any) -> TimedAnswer:
    before = _resident("VmRSS")
    if RESET_PEAK.exists():
        RESET_PEAK.write_text("5")
    begin = time.perf_counter()
    models = program.fit(problem, rung, given)
    seconds = time.perf_counter() - begin
    memory = max(_resident("VmHWM") - before, 0)
    return TimedAnswer(seconds, problem.objective(models.coef, models.intercept), memory, models.bytes_read)


def _resident(key: str) -> int:
    """Return a line of the process's memory in bytes: now (VmRSS) or at its peak (VmHWM)."""
    if not MEMORY_STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    line = next(line for line in MEMORY_STATUS.read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024
