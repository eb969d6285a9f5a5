"""The table and the verdict of the study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from bitlane.support.text import align_columns

from .crew import CrewResult

WITHIN = 0.05  # the goal: time lost beside an undisturbed run
SPREADS = 2.0  # standard deviations of the seeds that a loss may be away
HEADINGS = [
    "seed", "deaths", "joins", "failures", "rounds", "unequal", "repeated", "seconds", "undisturbed",
    "time lost", "loss", "undisturbed", "members", "loss with them",
]  # fmt: skip


@dataclass(frozen=True)
class ElasticPair:
    """A run with events, and one without that ran at the same time on the same machine.

    Attributes
    ----------
    seed : int
    disturbed, quiet : CrewResult
        Both runs.
    members : float
        Mean number of members in a round of the disturbed run.
    control : float
        The loss with as many members in each round, and no events (`control_loss`).
    """

    seed: int
    disturbed: CrewResult
    quiet: CrewResult
    members: float
    control: float

    @property
    def time_lost(self) -> float:
        """The share by which the events made the training longer."""
        return self.disturbed.seconds / self.quiet.seconds - 1


def loss_of(result: CrewResult) -> float:
    """Return the loss of the global parameters at the end, which all members have alike."""
    return mean(each.loss for each in result.results)


def table(pairs: Sequence[ElasticPair]) -> str:
    """Return a row for each seed."""
    cells = [HEADINGS]
    for pair in pairs:
        run = pair.disturbed
        repeated = max(each.repeated for each in run.results)
        counts = [pair.seed, run.deaths, run.joins, len(run.failures), len(run.rounds), run.unequal, repeated]
        times = [f"{run.seconds:.1f}", f"{pair.quiet.seconds:.1f}", f"{pair.time_lost:+.1%}"]
        losses = [f"{loss_of(run):.4f}", f"{loss_of(pair.quiet):.4f}", f"{pair.members:.2f}", f"{pair.control:.4f}"]
        cells.append([*map(str, counts), *times, *losses])
    return align_columns(cells, left=0)


def verdict(pairs: Sequence[ElasticPair]) -> str:
    """Return lines on whether the goals are met."""
    failures = sum(len(each.disturbed.failures) + each.disturbed.unequal for each in pairs)
    lost = mean(each.time_lost for each in pairs)
    lines = [
        f"no restart and equal digests in all rounds: {'met' if not failures else 'missed'}",
        f"time lost, at most {WITHIN:.0%}: {lost:+.1%}, {'met' if lost <= WITHIN else 'missed'}",
    ]
    if len(pairs) > 1:
        quiet = [loss_of(each.quiet) for each in pairs]
        for beside, losses in (("undisturbed", quiet), ("as many members", [each.control for each in pairs])):
            away = mean(loss_of(each.disturbed) for each in pairs) - mean(losses)
            is_met = away <= SPREADS * stdev(quiet)
            lines.append(
                f"loss beside {beside}, within {SPREADS:g} standard deviations ({stdev(quiet):.4f}) of the seeds: "
                f"{away:+.4f}, {'met' if is_met else 'missed'}"
            )
    return "\n".join(lines)
