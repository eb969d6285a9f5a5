"""`bitlane levels`: compare uniform levels with levels of least variance."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from bitlane.contract.precision import Precision
from bitlane.errors import DataError
from bitlane.evaluation.level_savings import column_scaling, feature_levels, savings
from bitlane.reporting.levels_plot import Panel, levels_plot
from bitlane.reporting.levels_text import SHOWN, savings_summary
from bitlane.support.atomic import atomic_write
from bitlane.support.optional import require_extra

from .command import Command
from .output import check_file, progress
from .source import SOURCE_DEFAULTS, add_source_arguments, load_source, source_name
from .summaries import SUMMARIES
from .training_arguments import fill

LEVELS_DEFAULTS = {**SOURCE_DEFAULTS, "task": "auto", "bits": 4}
DRAWN_BITS = 8  # with more stored bits the levels cannot be told apart in a plot


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--bits", type=int, help="stored bits of a feature, even, 2 to 32 (default: 4)")
    add_source_arguments(parser)
    add(
        "--out",
        type=Path,
        default=None,
        metavar="PNG",
        help="draw the levels over histograms of the features, for at most 8 bits",
    )


def _run(arguments: argparse.Namespace) -> None:
    fill(arguments, LEVELS_DEFAULTS)
    precision, out = Precision(arguments.bits), arguments.out
    if out is not None:
        _check_plot(out, precision)
    table, _ = load_source(arguments)
    scaling = column_scaling(table.X)
    values, names = scaling.values(table.X), [table.feature_names[j] for j in scaling.active]
    with progress("choosing levels", len(names), "feature") as advance:
        saved = savings(values, precision.bits, advance)
    text = savings_summary(saved, names, source_name(arguments.source), table.rows)
    if out is not None:
        panels = [
            Panel(
                names[j],
                f"variance {saved.uniform[j]:.3g}, optimal {saved.optimal[j, -1]:.3g}",
                values[:, j],
                feature_levels(values[:, j], precision.bits),
            )
            for j in saved.order[:SHOWN]
        ]
        title = f"{source_name(arguments.source)}: uniform and optimal levels, {precision.bits} bits"
        with atomic_write(out) as temporary:
            levels_plot(panels, np.linspace(-1.0, 1.0, precision.levels), temporary, title)
        text += f"\n\nwritten to {out}"
    print(text)


COMMAND = Command(
    "levels",
    SUMMARIES["levels"],
    _add_arguments,
    _run,
    description="Compare uniform levels with levels of least variance for each feature. To train with them, use "
    "`bitlane train --levels optimal`.",
    suppress_defaults=True,
)


def _check_plot(out: Path, precision: Precision) -> None:
    """Refuse a plot that cannot be drawn or written, before anything is computed."""
    if precision.bits > DRAWN_BITS:
        raise DataError(f"--out {out}: too many levels to plot ({precision.levels:,}): use --bits {DRAWN_BITS} or less")
    check_file(out)
    if out.suffix.lower() != ".png":
        raise DataError(f"--out {out}: the plot is a PNG file: use a name that ends with .png")
    require_extra("matplotlib", "plotting (--out)")
