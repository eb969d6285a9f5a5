"""What quantization adds to a step's computing time (LQ-SGD, section IV.C)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from bitlane.studies.compression.stock import step_seconds

from ..claim import Claim, Log, Verdict, markdown_table
from .sizes import LQSGDSize

RANKS = (1, 2, 4, 8)
MORE = 1.25  # times PowerSGD's, at most, where quantization is next to nothing
NAMES = ("stock", "PowerSGD", "LQSGD")

Times = Mapping[int, Mapping[str, float]]  # seconds of a step, by rank and name


def measure(size: LQSGDSize, say: Log) -> Claim:
    """Steps in turns on one gradient, with one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = {}
        for rank in RANKS:
            say(f"steps on a gradient of {size.side} x {size.side}, rank {rank}")
            found[rank] = step_seconds(size.side, size.side, rank, size.steps)
    finally:
        torch.set_num_threads(threads)
    return judge(found, size.side)


def judge(found: Times, side: int) -> Claim:
    """What the times say."""
    more = {rank: seconds["LQSGD"] / seconds["PowerSGD"] for rank, seconds in found.items()}
    stock = {rank: seconds["PowerSGD"] / seconds["stock"] for rank, seconds in found.items()}
    held = [each <= MORE for each in more.values()]
    rows = [
        [str(rank), *(f"{1e3 * seconds[name]:.1f}" for name in NAMES), f"{more[rank]:.2f}", f"{stock[rank]:.2f}"]
        for rank, seconds in found.items()
    ]
    heads = ["rank", "PyTorch's hook, ms", "PowerSGD, ms", "LQ-SGD, ms", "LQ-SGD / PowerSGD", "PowerSGD / hook"]
    return Claim(
        name="overhead",
        title="What quantization adds to a step",
        paper="Section IV.C: quantization costs O(r (n + m)), two products with the matrix O(n m r), so that what it "
        'adds is "practically negligible on modern GPUs".',
        measured=f"Median time of a step on a gradient [{side}, {side}], one thread, one rank, which sends nothing; "
        "error feedback and warm start in all; the three in turns. Beside them PyTorch's own PowerSGD hook:\n\n"
        + markdown_table(heads, rows),
        verdict=Verdict.HELD if all(held) else Verdict.PARTLY if any(held) else Verdict.FAILED,
        reason=f"At 8 bits LQ-SGD takes {min(more.values()):.2f} to {max(more.values()):.2f} of PowerSGD's time; "
        f"PowerSGD at rank 4 takes {stock[4]:.2f} of that of PyTorch's hook.",
        differs=(
            "A processor, not a GPU: a step is bound by the memory, and the product with a thin factor is nearly free.",
            "Levels are looked up by plain numpy.",
        ),
        draw=lambda figure: _draw(figure, found),
    )


def _draw(figure: Any, found: Times) -> None:
    """Milliseconds of a step, a group of bars a rank."""
    figure.set_size_inches(6.0, 3.4)
    axes = figure.subplots()
    places = np.arange(len(found))
    for k, (name, colour) in enumerate(zip(NAMES, ("#999999", "#0072B2", "#009E73"), strict=True)):
        heights = [1e3 * seconds[name] for seconds in found.values()]
        axes.bar(places + 0.27 * (k - 1), heights, 0.25, color=colour, label=name)
    axes.set(xlabel="rank", ylabel="ms a step", xticks=places)
    axes.set_xticklabels([str(rank) for rank in found])
    axes.legend(frameon=False, fontsize=8)
    axes.grid(True, axis="y", color="#E6E6E6", linewidth=0.7)
