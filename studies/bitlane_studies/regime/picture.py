"""The picture of the map: each cell a dot, to the right where bitlane is quicker; a circle from an encoded table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

STYLE: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "bitlane", "font.size": 9}
COLOURS = {"squared_error": "#1b6ca8", "log_loss": "#c8553d", "hinge": "#588157"}
WORDS = {"squared_error": "squares", "log_loss": "log loss", "hinge": "hinge"}
STORED = "from an encoded table"
FARTHEST = 100.0  # a factor beyond it is drawn at it


class PictureRow(NamedTuple):
    """A line of the picture.

    Attributes
    ----------
    text : str
        The cell in words.
    factor, stored : float
        The best rival's time over ours, and over that from an encoded table; nan if there is none.
    loss : str
    rival : str
        The best rival's name.
    """

    text: str
    factor: float
    stored: float
    loss: str
    rival: str


def draw(rows: Sequence[PictureRow], path: Path) -> None:
    """Draw the cells that both sides reached, from the most won to the most lost, and write an SVG file."""
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    shown = sorted((row for row in rows if math.isfinite(row.factor)), key=lambda row: row.factor)
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(8, 1.2 + 0.22 * max(len(shown), 1)), layout="constrained")
        for place, row in enumerate(shown):
            x, stored = (min(max(factor, 1 / FARTHEST), FARTHEST) for factor in (row.factor, row.stored))
            axis.plot([1, x], [place, place], color=COLOURS[row.loss], linewidth=1.2)
            axis.plot(x, place, "o", color=COLOURS[row.loss], markersize=5)
            axis.plot(stored, place, "o", color=COLOURS[row.loss], markersize=5, markerfacecolor="none")
            axis.text(1.2 * FARTHEST, place, row.rival, ha="right", va="center", fontsize=7, color="#666666")
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_yticks(range(len(shown)), [row.text for row in shown], fontsize=8)
        ticks = [1 / 100, 1 / 10, 1 / 2, 1, 2, 10, 100]
        axis.set_xticks(ticks, ["100", "10", "2", "1", "2", "10", "100"])
        axis.set_xticks([], minor=True)
        axis.set_xlim(0.8 / FARTHEST, 1.25 * FARTHEST)
        axis.set_xlabel("rival quicker, times        |        bitlane quicker, times")
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(axis="y", length=0)
        handles = [Line2D([], [], color=colour, marker="o", label=WORDS[loss]) for loss, colour in COLOURS.items()]
        handles.append(Line2D([], [], color="black", marker="o", markerfacecolor="none", linewidth=0, label=STORED))
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
