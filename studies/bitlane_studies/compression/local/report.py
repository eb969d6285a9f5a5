"""The table of all ways, and whether a way reaches the goal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bitlane.support.text import align_columns

from .trial import LocalTrial
from .ways import PLAIN

FEWER, WITHIN = 200, 0.01  # the goal: so many times fewer bytes than plain DDP, at a loss at most 1 % above its loss
HEADINGS = ["task", "way", "held-out loss", "of DDP's", "MB at the socket", "MB declared", "times fewer"]


@dataclass(frozen=True)
class WaySummary:
    """One way over all seeds.

    Attributes
    ----------
    losses : list of float
        Held-out loss of each seed, the mean over ranks.
    socket_bytes, declared_bytes : int
        The most bytes of any rank and seed.
    """

    losses: list[float]
    socket_bytes: int
    declared_bytes: int

    @property
    def loss(self) -> float:
        """Mean over seeds."""
        return float(np.mean(self.losses))

    @property
    def deviation(self) -> float:
        """Standard deviation over seeds, with n - 1; 0 with a single seed."""
        return float(np.std(self.losses, ddof=1)) if len(self.losses) > 1 else 0.0


def summarize(ranks: Sequence[Mapping[str, Sequence[LocalTrial]]]) -> dict[str, WaySummary]:
    """Return the summary of each way from the trials of all ranks, each with a trial for each seed."""
    summaries = {}
    for way in ranks[0]:
        by_seed = list(zip(*(rank[way] for rank in ranks), strict=True))
        every = [trial for trials in by_seed for trial in trials]
        summaries[way] = WaySummary(
            [float(np.mean([trial.loss for trial in trials])) for trials in by_seed],
            max(trial.socket_bytes for trial in every),
            max(trial.declared_bytes for trial in every),
        )
    return summaries


def fewer(summary: WaySummary, plain: WaySummary) -> float:
    """Return how many times fewer bytes than plain DDP a way sends, at the socket."""
    return plain.socket_bytes / summary.socket_bytes if summary.socket_bytes else float("inf")


def table(tasks: Mapping[str, Mapping[str, WaySummary]]) -> str:
    """Return the table of all tasks and ways: losses as mean +- standard deviation over seeds."""
    rows = [HEADINGS]
    for task, ways in tasks.items():
        plain = ways[PLAIN]
        for name, way in ways.items():
            loss = f"{way.loss:.4f} +- {way.deviation:.4f}"
            bytes_sent = [f"{count / 1e6:.3f}" for count in (way.socket_bytes, way.declared_bytes)]
            rows.append([task, name, loss, f"{way.loss / plain.loss:.4f}", *bytes_sent, f"{fewer(way, plain):.1f}"])
    return align_columns(rows, left=2)


def reaches_goal(ways: Mapping[str, WaySummary], way: str) -> bool:
    """Return whether a way sends few enough bytes at a loss near that of plain DDP, or below it."""
    plain, summary = ways[PLAIN], ways[way]
    return fewer(summary, plain) >= FEWER and summary.loss <= (1 + WITHIN) * plain.loss


def verdict(task: str, ways: Mapping[str, WaySummary], way: str) -> str:
    """Return a line on whether a way reaches the goal for a task."""
    plain, summary = ways[PLAIN], ways[way]
    each = [f"{a / b - 1:+.1%}" for a, b in zip(summary.losses, plain.losses, strict=True)]
    return (
        f"{task}, {way}: the goal of {FEWER} times fewer bytes at a loss within {WITHIN:.0%} is "
        f"{'met' if reaches_goal(ways, way) else 'missed'}: {fewer(summary, plain):.1f} times fewer, "
        f"loss {summary.loss / plain.loss - 1:+.1%} ({', '.join(each)} for each seed)"
    )
