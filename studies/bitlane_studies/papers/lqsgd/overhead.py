"""The computing time that quantization adds to a step (LQ-SGD, section IV.C)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch

from bitlane_studies.compression.stock import step_seconds

from ..claim import Claim, ClaimVerdict, Log, markdown_table
from .sizes import LQSGDSize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RANKS = (1, 2, 4, 8)
LIMIT = 1.25  # largest ratio to the time of PowerSGD at which the overhead counts as negligible
NAMES = ("PowerSGD", "LQSGD")

Times = Mapping[int, Mapping[str, float]]  # seconds of a step, by rank and name


def measure(size: LQSGDSize, log: Log) -> Claim:
    """Measure steps on one gradient, with one thread and the implementations in turns."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        times = {}
        for rank in RANKS:
            log(f"steps on a gradient of {size.side} x {size.side}, rank {rank}")
            times[rank] = step_seconds(size.side, size.side, rank, size.steps)
    finally:
        torch.set_num_threads(threads)
    return judge(times, size.side)


def judge(times: Times, side: int) -> Claim:
    """Return the verdict on the times."""
    more = {rank: seconds["LQSGD"] / seconds["PowerSGD"] for rank, seconds in times.items()}
    held = [each <= LIMIT for each in more.values()]
    rows = [
        [str(rank), *(f"{1e3 * seconds[name]:.1f}" for name in NAMES), f"{more[rank]:.2f}"]
        for rank, seconds in times.items()
    ]
    headings = ["rank", "PowerSGD, ms", "LQ-SGD, ms", "LQ-SGD / PowerSGD"]
    return Claim(
        name="overhead",
        title="Computing time of quantization",
        paper="Section IV.C: quantization costs O(r (n + m)), and the two products with the matrix cost O(n m r). "
        'Quantization is therefore "practically negligible on modern GPUs".',
        measured=f"Median time of a step on a gradient [{side}, {side}] with one thread and one rank, which sends "
        "nothing. PowerSGD and LQ-SGD run in turns, both with error feedback and warm start:\n\n"
        + markdown_table(headings, rows),
        verdict=ClaimVerdict.HELD if all(held) else ClaimVerdict.PARTLY if any(held) else ClaimVerdict.FAILED,
        reason=f"At 8 bits LQ-SGD takes {min(more.values()):.2f} to {max(more.values()):.2f} times as long as "
        "PowerSGD.",
        differs=(
            "We use a CPU instead of a GPU. A step is limited by memory bandwidth, and the product with a thin factor "
            "takes almost no time.",
            "The levels are looked up with numpy.",
        ),
        plot=lambda figure: _plot(figure, times),
    )


def _plot(figure: Figure, times: Times) -> None:
    """Plot the milliseconds of a step, with a group of bars for each rank."""
    figure.set_size_inches(6.0, 3.4)
    axes = figure.subplots()
    positions = np.arange(len(times))
    for k, (name, colour) in enumerate(zip(NAMES, ("#999999", "#0072B2", "#009E73"), strict=True)):
        heights = [1e3 * seconds[name] for seconds in times.values()]
        axes.bar(positions + 0.27 * (k - 1), heights, 0.25, color=colour, label=name)
    axes.set(xlabel="rank", ylabel="ms per step", xticks=positions)
    axes.set_xticklabels([str(rank) for rank in times])
    axes.legend(frameon=False, fontsize=8)
    axes.grid(True, axis="y", color="#E6E6E6", linewidth=0.7)
