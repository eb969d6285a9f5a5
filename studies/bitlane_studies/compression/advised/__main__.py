"""Compare what `bitlane advise` recommends with trainings with every candidate, on links between network namespaces.

    python -m bitlane_studies.compression.advised                      three tasks, two links: six settings
    python -m bitlane_studies.compression.advised lstm --links 10mbit

An advice sees the first 60 steps of a training. Then each candidate trains from the same weights with the same batches
for `--steps` steps. Losses do not depend on the link: those of a task are means over its links, each with a seed of its
own. The fastest is the candidate with the shortest steps of those whose held-out loss ends at most 1 % above that of
plain DDP; all make the same number of steps, so that the time of a step decides. `auto`, which chooses during a
training, is measured beside them. Times need a quiet machine with a core for each rank. Namespaces need root, and ip
and tc (iproute2).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from bitlane.compress.advice.advise import advise
from bitlane.compress.advice.candidates import BFLOAT16, CANDIDATES, PLAIN
from bitlane.compress.collectives.emulated_links import emulate_links, parse_link
from bitlane.compress.collectives.launch import launch
from bitlane.errors import BitlaneError
from bitlane.support.one_thread import one_thread

from ...command import run
from .report import SettingResult, candidate_table, setting_result, summary_table, with_mean_losses
from .settings import TASKS, AdvisedSetting
from .trial import AUTO, least_steps, run_rank

LINKS = ("1gbit", "100mbit")
HOUR = 3600.0


def measured(setting: AdvisedSetting, names: Sequence[str], seed: int) -> SettingResult:
    """Ask for advice in a setting, and train with each candidate."""
    link = parse_link(setting.link)
    with one_thread():
        advice = advise(setting.measured_training(seed), link, setting.ranks, names=names)
    with emulate_links(setting.ranks, link) as links:
        by_rank = launch(
            run_rank,
            setting.ranks,
            setting,
            list(dict.fromkeys((PLAIN, BFLOAT16, *names, AUTO))),
            seed,
            timeout=6 * HOUR,
            enter=links.enter,
            on_report=partial(_show, setting),
        )
    return setting_result(setting, advice, by_rank)


def _show(setting: AdvisedSetting, rank: int, done: tuple[str, float, float]) -> None:
    if rank == 0:
        name, loss, seconds = done
        text = f"{setting.task}, {setting.link}, {name}: loss {loss:.4f}, {1e3 * seconds:.2f} ms a step"
        print(text, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 1 if a setting misses the goal."""
    parser = argparse.ArgumentParser(prog="python -m bitlane_studies.compression.advised", description=_SUMMARY)
    add = parser.add_argument
    add("tasks", nargs="*", default=list(TASKS), help=f"of {', '.join(TASKS)} (default: all)")
    add("--links", nargs="+", default=LINKS, help="links, such as 1gbit (default: 1gbit 100mbit)")
    add("--candidates", nargs="+", default=CANDIDATES, help="candidates (default: those of bitlane advise)")
    add("--ranks", type=int, default=2, help="number of ranks (default: %(default)s)")
    add("--steps", type=int, default=400, help="steps of a training (default: %(default)s)")
    add("--seed", type=int, default=0, help="of weights and batches on the first link (default: %(default)s)")
    given = parser.parse_args(argv)
    for name in given.candidates:
        if given.steps < least_steps(name):
            raise BitlaneError(f"--steps must be {least_steps(name)} or more for {name}; got {given.steps}")
    results: list[SettingResult] = []
    for task in given.tasks:
        settings = [AdvisedSetting(task, link, given.ranks, given.steps) for link in given.links]
        found = [measured(each, given.candidates, given.seed + number) for number, each in enumerate(settings)]
        results += with_mean_losses(found)
        for each in results[-len(found) :]:
            print(f"{each.setting.task}, {each.setting.link}; * is advised, + the fastest that keeps the loss")
            print(candidate_table(each), flush=True)
    print(summary_table(results))
    return int(not all(each.is_met for each in results))


_SUMMARY = "Compare what bitlane advise recommends with trainings with every candidate."

if __name__ == "__main__":
    run(main)
