"""Compare DDP with rounds of DiLoCo and SparseLoCo, with Dion and with DeMo, at equal steps: held-out loss and bytes.

    python -m bitlane_studies.compression.outer                     AdamW, Muon, Dion and DeMo in 28 ways
    python -m bitlane_studies.compression.outer --long              ten times the steps, in the ways of fewest bytes
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
from .rates import INNER_RATES, LONG_TUNED, TUNED, best, candidates
from .report import COMPARED_WITH, baselines, draw, rows_of, table, verdict, write_json
from .trial import LONG, OuterJob, OuterTrial, Size, run_rank
from .ways import LONG_WAYS, ways_of

HOURS = 3600.0 * 6  # a run may take


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    given = _parser().parse_args(argv)
    if given.ranks < 2:
        raise BitlaneError(f"--ranks must be 2 or more; got {given.ranks}")
    sizes = {each.name: getattr(given, each.name) for each in fields(Size)}
    size = replace(LONG if given.long else Size(), **{name: each for name, each in sizes.items() if each is not None})
    inner_names = given.inner or (["muon"] if given.long else ["adamw", "muon", "dion", "demo"])
    tuned, ways = (LONG_TUNED, lambda _: LONG_WAYS) if given.long else (TUNED, ways_of)
    if given.tune:
        jobs = [job for inner in inner_names for job in candidates(inner, ways(inner))]
        by_rank = _trained(jobs, size, given.ranks)
        for (inner, family), rates in best(jobs, [trial.loss for trial in by_rank[0]]).items():
            print(f"{inner}, {family}: {rates}")
        return 0
    for inner in inner_names:
        if (inner, ways(inner)[0].family) not in tuned:
            raise BitlaneError(f"no tuned rates of {inner}: find them with --tune, and add them to rates.py")
        if COMPARED_WITH.get(inner, inner) not in inner_names:
            raise BitlaneError(f"{inner} is compared with DDP with {COMPARED_WITH[inner]}: add that to --inner")
    jobs = [
        OuterJob(inner, way, tuned[inner, way.family], seed)
        for seed in given.seeds
        for inner in inner_names
        for way in ways(inner)
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
    default = "default: all but sgd; muon with --long"
    add("--inner", nargs="+", choices=list(INNER_RATES), help=f"optimizers ({default})")
    add("--long", action="store_true", help=f"{LONG.steps:,} steps in {len(LONG_WAYS)} ways, with rates tuned for that")
    add("--seeds", nargs="+", type=int, default=[0, 1], help="seeds of weights and batches (default: 0 1)")
    add("--ranks", type=int, default=2, help="number of ranks, 2 or more (default: %(default)s)")
    for each in fields(Size):
        add(f"--{each.name}", type=int, help=f"as in Size (default: {each.default})")
    add("--tune", action="store_true", help="train with each rate of the grid, and print the best")
    add("--out", type=Path, default=Path("build/outer"), help="folder of the JSON file and the picture")
    return parser


if __name__ == "__main__":
    run(main)
