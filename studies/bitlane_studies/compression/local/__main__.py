"""Train in each step with DDP, and in rounds with DiLoCo in float32 and in 4 bits: held-out loss and bytes.

    python -m bitlane_studies.compression.local                   two tasks, three seeds, four ways
    python -m bitlane_studies.compression.local --task text --seeds 7 --steps 200 --every 20

All ways of a seed begin with the same weights and make equally many steps of AdamW with the same batches and the same
schedule of the learning rate. Only the way with longer rounds has more: as many rounds, each with a third as many steps
again. The bytes are those of the rank that sends most, by the kernel's count, from before the start to after the
finish; of torchft without its start. The defaults were tuned with another seed than the three.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from bitlane.compress.collectives.launch import launch
from bitlane.errors import BitlaneError

from ...command import run
from .recipe import TUNED, LocalRecipe
from .report import WaySummary, summarize, table, verdict
from .tasks import TASKS
from .trial import TrialProgress, run_rank
from .ways import ALONE, FOUR_BITS, LONGER, TORCHFT, WAYS

OVERRIDES = ("steps", "every", "batch", "rate", "local_rate", "outer_rate", "outer_momentum")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    arguments = _parser().parse_args(argv)
    if arguments.ranks < 2:
        raise BitlaneError(f"--ranks must be 2 or more; got {arguments.ranks}")
    asked = {ALONE: arguments.alone, TORCHFT: arguments.torchft}
    ways = [way for way in WAYS if asked.get(way, True)]
    given = {name: getattr(arguments, name) for name in OVERRIDES if getattr(arguments, name) is not None}
    recipes = {task: replace(TUNED[task], **given) for task in arguments.task}
    results: dict[str, dict[str, WaySummary]] = {}
    for task, recipe in recipes.items():
        show = partial(_show, task)
        results[task] = summarize(
            launch(run_rank, arguments.ranks, task, recipe, arguments.seeds, ways, on_report=show)
        )
    print(table(results))
    for task, summaries in results.items():
        print(*(verdict(task, summaries, way) for way in (FOUR_BITS, LONGER)), sep="\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_studies.compression.local", description=__doc__.split("\n")[0]
    )
    add, tuned = parser.add_argument, "(default: tuned for each task)"
    add("--task", nargs="+", choices=list(TASKS), default=list(TASKS), help="the tasks (default: all)")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2], help="seeds of weights and batches (default: 0 1 2)")
    add("--ranks", type=int, default=2, help="number of ranks, 2 or more (default: %(default)s)")
    add("--steps", type=int, help=f"inner steps, a multiple of --every (default: {LocalRecipe.steps})")
    add("--every", type=int, help=f"inner steps between two rounds (default: {LocalRecipe.every})")
    add("--batch", type=int, help=f"examples per rank and step {tuned}")
    add("--rate", type=float, help=f"largest learning rate of AdamW with plain DDP {tuned}")
    add("--local-rate", type=float, help=f"largest learning rate of AdamW with DiLoCo {tuned}")
    add("--outer-rate", type=float, help=f"learning rate of the outer optimizer {tuned}")
    add("--outer-momentum", type=float, help=f"Nesterov momentum of the outer optimizer {tuned}")
    add("--alone", action="store_true", help=f"also train {ALONE}")
    add("--torchft", action="store_true", help=f"also train with {TORCHFT} (needs `pip install torchft`)")
    return parser


def _show(task: str, rank: int, progress: TrialProgress) -> None:
    """Print the result of a training of rank 0; on a terminal also its progress."""
    if rank:
        return
    begin = f"{task}, seed {progress.seed}, {progress.way}: "
    if progress.loss is not None:
        print(f"{begin}loss {progress.loss:.4f} after {progress.steps} steps", file=sys.stderr, flush=True)
    elif sys.stderr.isatty():
        print(f"{begin}step {progress.steps} of {progress.of}", end="\r", file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(main)
