"""Many mutants, tried one after the other or a few at a time."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .operators import Mutant
from .trial import Sandbox, Stage, Verdict, finish, start

Sampled = tuple[Mutant, Iterator[Mutant]]  # and those that may take its place
LEAST = 6  # mutants of a module, where it has as many
PAUSE = 0.05  # seconds between two looks at the trials


@dataclass(frozen=True)
class Tried:
    """A mutant and how its trial ended."""

    mutant: Mutant
    verdict: Verdict


def shares(sizes: dict[str, int], count: int) -> dict[str, int]:
    """How many of `count` mutants each module gets: as many as it has in proportion, LEAST at least."""
    total = sum(sizes.values())
    wanted = {name: min(size, max(LEAST, round(count * size / total))) for name, size in sizes.items()}
    by_size = sorted(wanted, key=lambda name: sizes[name], reverse=True)
    while sum(wanted.values()) != min(count, total):
        step = 1 if sum(wanted.values()) < count else -1
        for name in by_size:
            if LEAST <= wanted[name] + step <= sizes[name] and sum(wanted.values()) != min(count, total):
                wanted[name] += step
        if step < 0 and all(share <= LEAST for share in wanted.values()):
            break  # fewer than LEAST for each were asked for
    return wanted


def sampled(found: dict[str, list[Mutant]], count: int, seed: int) -> Iterator[Sampled]:
    """A random choice, spread over the modules."""
    chosen = random.Random(seed)
    orders = {module: iter(chosen.sample(mutants, len(mutants))) for module, mutants in sorted(found.items())}
    wanted = shares({module: len(mutants) for module, mutants in found.items()}, count)
    first = [(next(orders[module]), orders[module]) for module, share in wanted.items() for _ in range(share)]
    chosen.shuffle(first)
    yield from first


def campaign(
    sandbox: Sandbox,
    sample: Iterable[Sampled],
    stages: Callable[[Mutant, Path], Sequence[Stage]],
    processes: int,
    tell: Callable[[Tried], None],
) -> list[Tried]:
    """Try mutants, each in a process of its own; one that is refused or changes nothing gives its place to the next.

    Parameters
    ----------
    stages: of a mutant's trial, and where it lies. processes: trials at a time. tell: called as each ends.
    """
    running: dict[int, tuple[Mutant, Iterator[Mutant], str]] = {}
    free = [f"trial{i}" for i in range(processes)]
    waiting = list(sample)[::-1]
    done = []
    while waiting or running:
        while waiting and free:
            mutant, spare = waiting.pop()
            name = free.pop()
            running[_begin(sandbox, mutant, stages, name)] = mutant, spare, name
        for process in [*running]:
            ended, status = os.waitpid(process, os.WNOHANG)
            if not ended:
                continue
            mutant, spare, name = running.pop(process)
            free.append(name)
            tried = Tried(mutant, finish(process, status, _report(sandbox, name)))
            done.append(tried)
            tell(tried)
            if tried.verdict.result in ("refused", "same") and (other := next(spare, None)):
                waiting.append((other, spare))
        time.sleep(PAUSE)
    return done


def _begin(sandbox: Sandbox, mutant: Mutant, stages: Callable[[Mutant, Path], Sequence[Stage]], name: str) -> int:
    folder = sandbox.place(mutant, name)
    log = sandbox.root.parent / f"{name}.log"
    return start(lambda: [*stages(mutant, folder)], lambda: sandbox.enter(folder), _report(sandbox, name), log)


def _report(sandbox: Sandbox, name: str) -> Path:
    return sandbox.root.parent / f"{name}.json"
