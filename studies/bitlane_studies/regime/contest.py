"""The contest of one cell: each program's cheapest setting that reaches the target, then its time, cold and warm."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from .contender import ForkedContender, Program, TimedAnswer
from .problems import FitProblem

TARGETS = (1.01, 1.001)  # of the objective, over its optimum
TIMES_BEST = 10  # a program that takes longer than so many times the best is stopped
CLOSE = 3  # programs within so many times the best are timed again, in turns
LEAST_LIMIT, LONG = 1.0, 20.0  # seconds: no call is stopped earlier; calls beyond are stopped at CLOSE times the best
COMPILING = 30.0  # seconds that a first call may take beyond the limit


@dataclass
class ReachedTarget:
    """A program's time to a target.

    Attributes
    ----------
    setting : str
        The rung of its ladder.
    warm, cold : float
        Seconds of a call, from the table in memory to coefficients: the least in a process that made calls before, and
        that of a new process, whose libraries are imported; nan if that was not measured.
    excess : float
        Of the objective over its optimum, 0.001 for 0.1 %.
    memory : int
        Bytes above those before the call, at its peak.
    bytes_read : int or None
    """

    setting: str
    warm: float
    cold: float
    excess: float
    memory: int
    bytes_read: int | None


@dataclass
class ProgramResult:
    """What one program did in a cell: by target, or the reason why there is nothing."""

    name: str
    version: str
    given: str
    ours: bool
    reached: dict[str, ReachedTarget] = field(default_factory=dict)
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


class _Trial:
    """A program's process and all calls it made, by rung."""

    def __init__(self, program: Program, problem: FitProblem, patience: float):
        self.program, self.problem = program, problem
        self.rungs = list(program.ladder(problem))
        self.process = ForkedContender(program, problem)
        self.given = self.process.prepared(max(60.0, 10 * patience))
        self.calls: dict[int, list[TimedAnswer]] = {}
        self.chosen: dict[float, int] = {}

    def answer(self, index: int, limit: float) -> TimedAnswer | None:
        """Return the first call of a rung, made now if it was not made before."""
        if index not in self.calls:
            made = self.process.run(self.rungs[index], limit)
            if made is None:
                return None
            self.calls[index] = [made]
        return self.calls[index][0]

    def reaches(self, objective: float, limit: float, index: int) -> bool | None:
        """Say whether a rung reaches an objective; None if it was stopped or failed."""
        made = self.answer(index, limit)
        return None if made is None else made.objective <= objective

    def takes(self, seconds: float, index: int) -> bool:
        """Say whether the first call of a rung took longer than so many seconds."""
        return index in self.calls and self.calls[index][0].seconds > seconds

    def warm(self, target: float) -> float:
        """Return the least time to the target; infinite if it was not reached."""
        index = self.chosen.get(target)
        return math.inf if index is None else min(call.seconds for call in self.calls[index])


def first_rung(
    reaches: Callable[[int], bool | None], rungs: int, start: int = 0, rough: Callable[[int], bool] = lambda low: False
) -> int | None:
    """Return the first rung that reaches the target, with few calls.

    Steps from `start` grow twofold, up or down, until the first such rung lies in a gap; the gap is then halved.

    Parameters
    ----------
    reaches : callable
        Of a rung: whether it reaches the target; None if it was stopped, and then all above it would be, too.
    rungs : int
    start : int, default=0
        Where the search begins.
    rough : callable, optional
        Of the lower end of the gap, or -1: whether the upper end will do, although a rung between may be the first.

    Returns
    -------
    int or None
        None if no rung reaches the target.
    """
    low, high, step = -1, min(start, rungs - 1), 1
    if reaches(high):
        while high > 0:
            below = max(high - step, 0)
            if not reaches(below):
                low = below
                break
            high, step = below, 2 * step
    else:
        while True:
            if high == rungs - 1:
                return None
            low, high, step = high, min(high + step, rungs - 1), 2 * step
            found = reaches(high)
            if found:
                break
            if found is None:
                return None
    while high - low > 1 and not rough(low):
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def compete(
    problem: FitProblem, programs: Sequence[Program], optimum: float, patience: float = 120.0, repeats: int = 2
) -> tuple[float, list[ProgramResult]]:
    """Run all programs on a problem.

    Parameters
    ----------
    problem : FitProblem
    programs : sequence of Program
        Those expected to be quick first: they set the limit for the rest.
    optimum : float
        Of the objective.
    patience : float, default=120
        Seconds of a call, while no program has reached the target.
    repeats : int, default=2
        Further calls of programs that are close to the best. Those far from it have one if they are quick.

    Returns
    -------
    float
        The least objective: the optimum, or what a program found below it.
    list of ProgramResult
    """
    trials: list[_Trial] = []
    hints: dict[tuple[str, float], int] = {}
    for program in programs:
        trial = _Trial(program, problem, patience)
        trials.append(trial)
        start = 0
        for target in TARGETS:
            best = min(each.warm(target) for each in trials)
            limit = patience if math.isinf(best) else limit_of(best)
            start = hints.get((program.kin, target), start)
            reaches = partial(trial.reaches, target * optimum, limit)
            index = first_rung(reaches, len(trial.rungs), start, partial(trial.takes, CLOSE * best))
            if index is None:
                break
            trial.chosen[target] = start = index
            if program.kin:
                hints[program.kin, target] = index
        times = ", ".join(f"{trial.warm(target):.3g} s" for target in TARGETS)
        print(f"  {program.name}: {times} {trial.process.reason}", file=sys.stderr, flush=True)
    _again(trials, repeats, patience)
    quickest = {target: min(trial.warm(target) for trial in trials) for target in TARGETS}
    results = [_result(trial, optimum, quickest) for trial in trials]
    calls = [call.objective for trial in trials for calls in trial.calls.values() for call in calls]
    return min([optimum, *(each for each in calls if math.isfinite(each))]), results


def limit_of(best: float) -> float:
    """Return the seconds after which a call is stopped, from the best time to the same target."""
    return min(max(TIMES_BEST * best, LEAST_LIMIT), max(CLOSE * best, LONG))


def _again(trials: Sequence[_Trial], repeats: int, patience: float) -> None:
    """Time the programs again in turns, each in the process that it has: those that are quick or close to the best."""
    for target in TARGETS:
        best = min((trial.warm(target) for trial in trials), default=math.inf)
        for turn in range(repeats):
            for trial in trials:
                index = trial.chosen.get(target)
                far = trial.warm(target) > CLOSE * best and (turn or trial.warm(target) > LEAST_LIMIT)
                if index is None or trial.process.reason or far:
                    continue
                made = trial.process.run(trial.rungs[index], patience)
                if made is not None:
                    trial.calls[index].append(made)


def _result(trial: _Trial, optimum: float, best: Mapping[float, float]) -> ProgramResult:
    """Write all down, with the first call of a new process if the program is quick or close to the best."""
    program = trial.program
    result = ProgramResult(program.name, program.version, program.given, program.ours)
    result.reason = trial.process.reason
    trial.process.stop()
    first: dict[int, TimedAnswer | None] = {}
    for target, index in trial.chosen.items():
        calls = trial.calls[index]
        if index not in first and trial.warm(target) <= max(CLOSE * best[target], LEAST_LIMIT):
            fresh = ForkedContender(program, trial.problem, trial.given)
            first[index] = fresh.run(trial.rungs[index], 2 * limit_of(best[target]) + COMPILING)
            fresh.stop()
        last, cold = min(calls, key=lambda call: call.seconds), first.get(index)
        result.reached[f"{target:g}"] = ReachedTarget(
            str(trial.rungs[index]),
            last.seconds,
            cold.seconds if cold else math.nan,
            last.objective / optimum - 1,
            cold.memory if cold else last.memory,
            last.bytes_read,
        )
    if len(result.reached) < len(TARGETS) and not result.reason:
        result.reason = f"not within {TARGETS[len(result.reached)] - 1:.1%} at {trial.rungs[-1]}"
    return result
