"""Compare DDP with rounds of DiLoCo and SparseLoCo, with Dion and with DeMo, at equal steps: held-out loss and bytes.

    python -m bitlane_studies.compression.outer                     AdamW, Muon, Dion and DeMo in 24 ways
    python -m bitlane_studies.compression.outer --tune --inner sgd  the losses of the grid of rates, and the best

All trainings of a seed begin with the same weights and make as many steps with the same batches, and with a rate that
rises and falls alike. The bytes are those of the rank that sends most, by the kernel's count, from before the start to
after the finish. The rates of each inner optimizer and family of ways come from a grid, with another seed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

from bitlane.compress.collectives.launch import launch
from bitlane.errors import BitlaneError

from ...command import run
from .rates import INNER_RATES, TUNED, best, candidates
from .report import COMPARED_WITH, baselines, draw, rows_of, table, verdict, write_json
from .trial import OuterJob, OuterTrial, Size, run_rank
from .ways import ways_of

HOURS = 3600.0 * 6  # a run may take


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    given = _parser().parse_args(argv)
    if given.ranks < 2:
        raise BitlaneError(f"--ranks must be 2 or more; got {given.ranks}")
    sizes = {each.name: getattr(given, each.name) for each in fields(Size)}
    size = replace(Size(), **{name: value for name, value in sizes.items() if value is not None})
    if given.tune:
        jobs = [job for inner in given.inner for job in candidates(inner)]
        by_rank = _trained(jobs, size, given.ranks)
        for (inner, family), rates in best(jobs, [trial.loss for trial in by_rank[0]]).items():
            print(f"{inner}, {family}: {rates}")
        return 0
    for inner in given.inner:
        if (inner, ways_of(inner)[0].family) not in TUNED:
            raise BitlaneError(f"no tuned rates of {inner}: find them with --tune, and add them to rates.py")
        if COMPARED_WITH.get(inner, inner) not in given.inner:
            raise BitlaneError(f"{inner} is compared with DDP with {COMPARED_WITH[inner]}: add that to --inner")
    jobs = [
        OuterJob(inner, way, TUNED[inner, way.family], seed)
        for seed in given.seeds
        for inner in given.inner
        for way in ways_of(inner)
    ]
    by_rank = _trained(jobs, size, given.ranks)
    rows = rows_of(jobs, by_rank)
    given.out.mkdir(parents=True, exist_ok=True)
    write_json(given.out / "outer.json", size, jobs, by_rank)
    draw(rows, given.out / "outer.svg")
    print(table(rows))
    print(*(verdict(rows, inner) for inner in baselines(rows)), sep="\n")
    return 0


def _trained(jobs: Sequence[OuterJob], size: Size, ranks: int) -> list[list[OuterTrial]]:
    for job in jobs:
        job.check(size)
    return launch(run_rank, ranks, size, jobs, on_report=partial(_show, jobs), timeout=HOURS)


def _show(jobs: Sequence[OuterJob], rank: int, done: tuple[int, float]) -> None:
    """Print the result of a training of rank 0."""
    if rank == 0:
        job = jobs[done[0]]
        text = f"{done[0] + 1} of {len(jobs)}: {job.inner}, {job.way.name}, seed {job.seed}, {job.rates}"
        print(f"{text}: loss {done[1]:.4f}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    assert __doc__
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_studies.compression.outer", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    inner = ["adamw", "muon", "dion", "demo"]
    add("--inner", nargs="+", choices=list(INNER_RATES), default=inner, help="optimizers (default: all but sgd)")
    add("--seeds", nargs="+", type=int, default=[0, 1], help="seeds of weights and batches (default: 0 1)")
    add("--ranks", type=int, default=2, help="number of ranks, 2 or more (default: %(default)s)")
    for each in fields(Size):
        add(f"--{each.name}", type=int, help=f"as in Size (default: {each.default})")
    add("--tune", action="store_true", help="train with each rate of the grid, and print the best")
    add("--out", type=Path, default=Path("build/outer"), help="folder of the JSON file and the picture")
    return parser


if __name__ == "__main__":
    run(main)
