"""Plots of a training over its rows: quality of the windows before they were learned, and the table."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.support.optional import require_extra

QUALITY_PLOT, TABLE_PLOT = "quality.png", "table.png"
NOISE = 0.05  # calibrations that are nearer to 1 do not fill the panel
_COLOUR, _LINE = "#0072B2", "#999999"  # Okabe and Ito's blue
_QUALITY = (("auc", "AUC"), ("log_loss", "log loss (nats)"), ("rmse", "RMSE"), ("calibration", "calibration"))
_TABLE = (("table_rows", "keys"), ("table_bytes", "memory of the table"), ("memory_over_data", "memory over data"))

Line = Mapping[str, Any]


def draw(lines: Sequence[Line], folder: Path, title: str) -> list[Path]:
    """Draw the windows of a training as PNGs in `folder`, and return their paths.

    Parameters
    ----------
    lines : sequence of dict
        Of `bitlane.sparse.training.log.read_log`; lines that are no windows are passed over.
    folder : Path
    title : str

    Raises
    ------
    DataError
        There are no windows.
    BitlaneError
        matplotlib is not installed.
    """
    windows = [line for line in lines if line["kind"] == "window"]
    if not windows:
        raise DataError("there are no windows to draw")
    paths = [folder / QUALITY_PLOT, folder / TABLE_PLOT]
    shown = [(name, label) for name, label in _QUALITY if any(line.get(name) is not None for line in windows)]
    _panels(windows, shown, paths[0], f"{title}: each window before it was learned")
    _panels(windows, _TABLE, paths[1], f"{title}: the table")
    return paths


def _panels(windows: Sequence[Line], shown: Sequence[tuple[str, str]], path: Path, title: str) -> None:
    matplotlib = require_extra("matplotlib", "plotting")
    matplotlib.use("Agg")
    pyplot = require_extra("matplotlib.pyplot", "plotting")
    ticker = require_extra("matplotlib.ticker", "plotting")
    figure, panels = pyplot.subplots(
        len(shown), 1, figsize=(9.0, 2.2 * len(shown) + 0.6), dpi=150, layout="constrained", sharex=True, squeeze=False
    )
    rows = np.array([line["rows_done"] for line in windows], np.float64)
    try:
        for axes, (name, label) in zip(panels[:, 0], shown, strict=True):
            axes.plot(rows, _values(windows, name), color=_COLOUR, linewidth=1.6, marker=".", markersize=4)
            for end in _epoch_ends(windows):
                axes.axvline(end, color=_LINE, linewidth=0.8, linestyle=":")
            if name == "calibration":
                axes.axhline(1.0, color=_LINE, linewidth=0.8)
                low, high = axes.get_ylim()
                axes.set_ylim(min(low, 1.0 - NOISE), max(high, 1.0 + NOISE))
            if name in ("table_rows", "table_bytes"):
                unit = "B" if name == "table_bytes" else ""
                axes.yaxis.set_major_formatter(ticker.EngFormatter(unit=unit))
                axes.set_ylim(bottom=0)
            axes.set_ylabel(label)
            axes.grid(True, color="#E6E6E6", linewidth=0.7)
            axes.set_axisbelow(True)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
        panels[0, 0].set_title(title, loc="left", fontsize=11, pad=12)
        panels[-1, 0].set_xlabel("rows" + (" (dotted: ends of epochs)" if _epoch_ends(windows) else ""))
        panels[-1, 0].xaxis.set_major_formatter(ticker.EngFormatter())
        figure.savefig(path, format="png")
    finally:
        pyplot.close(figure)


def _values(windows: Sequence[Line], name: str) -> NDArray[np.float64]:
    values = [line.get(name) for line in windows]
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _epoch_ends(windows: Sequence[Line]) -> list[int]:
    """Rows at which an epoch ended and another followed."""
    pairs = itertools.pairwise(windows)
    return [int(line["rows_done"]) for line, following in pairs if line["epoch"] != following["epoch"]]
