"""Many mutants, tried one after the other or some at a time."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .operators import Mutant
from .trial import MutantVerdict, Sandbox, Stage, finish, start

Candidate = tuple[Mutant, Iterator[Mutant]]  # a mutant, and those that may replace it
Stages = Callable[[Mutant, Path], Sequence[Stage]]  # of the trial of a mutant that was installed in a folder
MIN_PER_MODULE = 6  # mutants of each module in a sample, if it has as many
REPLACED = ("invalid", "identical", "equivalent")  # results that do not count: another mutant of the module is tried
POLL_SECONDS = 0.05


@dataclass(frozen=True)
class TrialResult:
    """A mutant and how its trial ended.

    Attributes
    ----------
    mutant : Mutant
        The mutant.
    verdict : MutantVerdict
        How its trial ended.
    seconds : float
        Processor time of the trial.
    """

    mutant: Mutant
    verdict: MutantVerdict
    seconds: float = 0.0


def quotas(sizes: dict[str, int], count: int) -> dict[str, int]:
    """Return how many mutants to take from each module: in proportion to its size, at least MIN_PER_MODULE."""
    total = sum(sizes.values())
    wanted = {name: min(size, max(MIN_PER_MODULE, round(count * size / total))) for name, size in sizes.items()}
    by_size = sorted(wanted, key=lambda name: sizes[name], reverse=True)
    while sum(wanted.values()) != min(count, total):
        step = 1 if sum(wanted.values()) < count else -1
        for name in by_size:
            if MIN_PER_MODULE <= wanted[name] + step <= sizes[name] and sum(wanted.values()) != min(count, total):
                wanted[name] += step
        if step < 0 and all(quota <= MIN_PER_MODULE for quota in wanted.values()):
            break  # `count` is less than MIN_PER_MODULE for each
    return wanted


def sample_mutants(
    of_modules: dict[str, list[Mutant]], count: int, seed: int, tried: Iterable[TrialResult] = ()
) -> Iterator[Candidate]:
    """Yield a random sample of all modules' mutants, in random order; of a campaign that was cut short, the rest.

    Parameters
    ----------
    of_modules : dict
        Mutants of each module.
    count : int
        Size of the sample.
    seed : int
        Of the sample.
    tried : iterable of TrialResult
        Results of the trials before.
    """
    rng = random.Random(seed)
    results = {result.mutant.key: result.verdict.result for result in tried}
    sampled = {module: rng.sample(mutants, len(mutants)) for module, mutants in sorted(of_modules.items())}
    wanted = quotas({module: len(mutants) for module, mutants in of_modules.items()}, count)
    first: list[Candidate] = []
    for module, mutants in sampled.items():
        left = iter([mutant for mutant in mutants if mutant.key not in results])
        counted = sum(results.get(mutant.key, REPLACED[0]) not in REPLACED for mutant in mutants)
        first += [(mutant, left) for mutant in itertools.islice(left, max(0, wanted[module] - counted))]
    rng.shuffle(first)
    yield from first


def run_campaign(
    sandbox: Sandbox,
    candidates: Iterable[Candidate],
    stages: Stages,
    processes: int,
    on_result: Callable[[TrialResult], None],
) -> list[TrialResult]:
    """Try mutants, each in its own process. An invalid or identical one is replaced by the next of its module.

    Parameters
    ----------
    sandbox : Sandbox
        Copy of the project.
    candidates : iterable of Candidate
        The mutants.
    stages : callable
        Returns the stages of a mutant's trial.
    processes : int
        Trials at a time.
    on_result : callable
        Called as each trial ends.

    Returns
    -------
    list of TrialResult
        Of all trials.
    """
    running: dict[int, tuple[Candidate, str]] = {}
    folders = [f"trial{i}" for i in range(processes)]
    waiting = list(candidates)[::-1]
    results = []
    while waiting or running:
        while waiting and folders:
            candidate, folder = waiting.pop(), folders.pop()
            running[_begin(sandbox, candidate[0], stages, folder)] = candidate, folder
        for process in [*running]:
            ended, status, usage = os.wait4(process, os.WNOHANG)
            if not ended:
                continue
            (mutant, replacements), folder = running.pop(process)
            folders.append(folder)
            verdict = finish(process, status, _report(sandbox, folder))
            results.append(TrialResult(mutant, verdict, usage.ru_utime + usage.ru_stime))
            on_result(results[-1])
            if verdict.result in REPLACED and (other := next(replacements, None)):
                waiting.append((other, replacements))
        time.sleep(POLL_SECONDS)
    return results


def _begin(sandbox: Sandbox, mutant: Mutant, stages: Stages, name: str) -> int:
    folder = sandbox.install(mutant, name)
    log = sandbox.root.parent / f"{name}.log"
    return start(lambda: [*stages(mutant, folder)], lambda: sandbox.activate(folder), _report(sandbox, name), log)


def _report(sandbox: Sandbox, name: str) -> Path:
    return sandbox.root.parent / f"{name}.json"
