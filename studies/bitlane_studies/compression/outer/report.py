"""The table, the verdict, the JSON file and the picture of the study."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bitlane.support.text import align_columns

from ..local.report import WaySummary, fewer
from .trial import OuterJob, OuterTrial, Size
from .ways import BFLOAT16, DDP

FEWER, WITHIN = 500, 0.01  # the goal: so many times fewer bytes than DDP in bfloat16, at a loss at most 1 % above
HEADINGS = ["inner", "way", "every", "held-out loss", "over DDP", "MB at the socket", "MB declared", "times fewer"]
STYLE: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "bitlane", "font.size": 9}
COLOURS = {"adamw": "#1b6ca8", "muon": "#c8553d", "sgd": "#588157", "dion": "#7b5ea7", "demo": "#8d6e63"}
COMPARED_WITH = {"dion": "muon", "demo": "adamw"}  # they average by themselves: they are compared with DDP with these


@dataclass(frozen=True)
class OuterRow(WaySummary):
    """A way with an inner optimizer over all seeds."""

    inner: str
    way: str
    every: int


def rows_of(jobs: Sequence[OuterJob], by_rank: Sequence[Sequence[OuterTrial]]) -> list[OuterRow]:
    """Return a row for each inner optimizer and way, from the trials of all ranks in the order of the jobs."""
    found: dict[tuple[str, str], list[int]] = {}
    for number, job in enumerate(jobs):
        found.setdefault((job.inner, job.way.name), []).append(number)
    return [
        OuterRow(
            [float(np.mean([rank[number].loss for rank in by_rank])) for number in numbers],
            max(rank[number].socket_bytes for rank in by_rank for number in numbers),
            max(rank[number].declared_bytes for rank in by_rank for number in numbers),
            inner,
            way,
            jobs[numbers[0]].way.every,
        )
        for (inner, way), numbers in found.items()
    ]


def baselines(rows: Sequence[OuterRow]) -> dict[str, OuterRow]:
    """Return DDP in bfloat16 with each inner optimizer, or with the one that it is compared with."""
    plain = {row.inner: row for row in rows if row.way == BFLOAT16.name}
    return {inner: plain[COMPARED_WITH.get(inner, inner)] for inner in dict.fromkeys(row.inner for row in rows)}


def table(rows: Sequence[OuterRow]) -> str:
    """Return the table: losses as mean, of several seeds +- standard deviation."""
    plain, cells = baselines(rows), [HEADINGS]
    for row in rows:
        base = plain[row.inner]
        spread = f" +- {row.deviation:.4f}" if len(row.losses) > 1 else ""
        megabytes = [f"{count / 1e6:.3f}" for count in (row.socket_bytes, row.declared_bytes)]
        above = f"{row.loss / base.loss - 1:+.1%}"
        loss = f"{row.loss:.4f}{spread}"
        cells.append([row.inner, row.way, str(row.every), loss, above, *megabytes, f"{fewer(row, base):.1f}"])
    return align_columns(cells, left=2)


def verdict(rows: Sequence[OuterRow], inner: str) -> str:
    """Return a line on whether a way reaches the goal with an inner optimizer, and which comes nearest."""
    base = baselines(rows)[inner]
    rounds = [row for row in rows if row.inner == inner and not row.way.startswith(DDP)]
    enough = [row for row in rounds if fewer(row, base) >= FEWER]
    near = min(enough or rounds, key=lambda row: row.loss)
    is_met = bool(enough) and near.loss <= (1 + WITHIN) * base.loss
    return (
        f"{inner}: the goal of {FEWER} times fewer bytes at a loss at most {WITHIN:.0%} above is "
        f"{'met' if is_met else 'missed'}: {near.way}, {fewer(near, base):.0f} times fewer, "
        f"loss {near.loss / base.loss - 1:+.1%}"
    )


def write_json(path: Path, size: Size, jobs: Sequence[OuterJob], by_rank: Sequence[Sequence[OuterTrial]]) -> None:
    """Write the size, and each training with its rates and the result of each rank."""
    trials = [
        {**asdict(job), "ranks": [asdict(rank[number]) for rank in by_rank]} for number, job in enumerate(jobs)
    ]  # fmt: skip
    found = {"torch": torch.__version__, "size": asdict(size), "trials": trials}
    path.write_text(json.dumps(found, indent=1) + "\n")


def draw(rows: Sequence[OuterRow], path: Path) -> None:
    """Draw the loss of each way over its bytes, with a colour for each inner optimizer, and write an SVG file."""
    import matplotlib.pyplot as plt

    by_inner: Mapping[str, list[OuterRow]] = {inner: [r for r in rows if r.inner == inner] for inner in baselines(rows)}
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(8, 4.5), layout="constrained")
        for inner, own in by_inner.items():
            megabytes = [row.socket_bytes / 1e6 for row in own]
            axis.plot(megabytes, [row.loss for row in own], "o", color=COLOURS[inner], label=inner, markersize=5)
            axis.axhline(baselines(rows)[inner].loss * (1 + WITHIN), color=COLOURS[inner], linewidth=0.8, linestyle=":")
            for row, at in zip(own, megabytes, strict=True):
                axis.annotate(row.way, (at, row.loss), (4, 3), textcoords="offset points", fontsize=7)
        axis.set_xscale("log")
        axis.set_xlabel("megabytes that a rank sends; dotted: 1 % above DDP in bfloat16")
        axis.set_ylabel("held-out loss, nats")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
