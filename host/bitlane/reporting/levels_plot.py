"""Levels over the histograms of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bitlane.levels.curve import Floats
from bitlane.support.optional import require_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BINS = 64
_COLUMNS = 4
_NAME = 24  # letters of a feature's name
_VALUES, _UNIFORM, _OPTIMAL = "#56B4E9", "#777777", "#D55E00"  # of Okabe and Ito's colours, as in other plots


@dataclass(frozen=True, eq=False)
class Panel:
    """A panel of the plot: scaled values float64 [rows] in [-1, 1] of a feature, its levels, and the title."""

    name: str
    note: str
    values: Floats
    levels: Floats


def levels_plot(panels: Sequence[Panel], uniform: Floats, path: str | Path, title: str) -> None:
    """Draw a histogram for each panel as a PNG.

    Optimal levels are lines over the histogram; the `uniform` levels, which all features share, are ticks at its upper
    edge.
    """
    matplotlib = require_extra("matplotlib", "plotting")
    matplotlib.use("Agg")
    pyplot = require_extra("matplotlib.pyplot", "plotting")
    columns = min(_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    size = (max(2, columns) * 3.0, rows * 2.3 + 0.9)
    figure, grid = pyplot.subplots(rows, columns, figsize=size, dpi=150, layout="constrained", squeeze=False)
    try:
        for axes in grid.flat[len(panels) :]:
            axes.remove()
        for axes, panel in zip(grid.flat, panels, strict=False):
            _draw(axes, panel, uniform)
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.supxlabel("scaled value", fontsize=10)
        figure.supylabel("share of the rows (%)", fontsize=10)
        look = {"frameon": False, "fontsize": 9, "title_fontsize": 11, "alignment": "left"}
        legend = figure.legend(handles, labels, loc="outside upper left", title=title, ncols=len(handles), **look)
        legend.get_title().set_parse_math(False)
        figure.savefig(path, format="png")
    finally:
        pyplot.close(figure)


def _draw(axes: Axes, panel: Panel, uniform: Floats) -> None:
    edge = axes.get_xaxis_transform()  # heights as a fraction of the panel's
    thin = min(1.2, 12.0 / len(panel.levels))
    share = np.full(len(panel.values), 100.0 / len(panel.values))
    axes.hist(
        panel.values, _BINS, range=(-1.0, 1.0), weights=share, color=_VALUES, alpha=0.75, zorder=3, label="values"
    )
    axes.vlines(uniform, 0.93, 1.0, color=_UNIFORM, linewidth=0.8, transform=edge, label="uniform levels")
    axes.vlines(panel.levels, 0.0, 0.9, color=_OPTIMAL, linewidth=thin, transform=edge, label="optimal levels")
    name = panel.name if len(panel.name) <= _NAME else panel.name[: _NAME - 3] + "..."
    axes.set_title(f"{name}\n{panel.note}", loc="left", fontsize=8, parse_math=False)
    axes.set_xlim(-1.03, 1.03)
    axes.margins(y=0.12)
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
