"""Measure how staleness affects convergence: `python -m bitlane_studies.staleness docs/staleness.svg`.

The study trains on 10,000 rows of cadata and of MNIST (digit 0 against the rest) with staleness 0 and 1, at several
batch sizes and learning rates. It prints a table of the losses and draws a figure. The trainings run on the emulator,
whose results equal those of the RTL bit for bit.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bitlane.contract.precision import Precision
from bitlane.data.datasets import load_dataset
from bitlane.devices.emulator import EmulatorDevice
from bitlane.evaluation.compare import ComparisonData, binary_labels, train_as
from bitlane.evaluation.metrics import constant_loss
from bitlane.evaluation.schedules import TrainingSchedule
from bitlane.support.optional import require_extra
from bitlane.support.text import align_columns
from bitlane.training.learning_rate import suggest_learning_rate

PRECISION = Precision(8)
EPOCHS = 8
BATCHES = (16, 64, 256)
TIMES = (0.5, 1.0, 2.0)  # factors on the rate of `suggest_learning_rate` for the batch size
SHOWN = (1, 2, 4, 8)  # epochs in the table
ROWS = 10_000
SIZE = (9.0, 5.2)  # inches


@dataclass(frozen=True)
class StalenessCurve:
    """Losses of one training.

    Attributes
    ----------
    name : str
        Data set.
    batch : int
        Rows per batch.
    times : float
        Learning rate over the suggested one.
    rate : float
        Learning rate.
    staleness : {0, 1}
        Age of the model that a batch reads, in batches.
    losses : sequence of float
        Loss after each epoch over the loss of a constant model.
    """

    name: str
    batch: int
    times: float
    rate: float
    staleness: int
    losses: Sequence[float]


def data_sets() -> dict[str, ComparisonData]:
    """Load both data sets and return up to ROWS rows of each in random order.

    Raises
    ------
    DataError
        If a data set is not available.
    """
    sets = {}
    for name in ("cadata", "mnist"):
        table = load_dataset(name)
        order = np.random.default_rng(0).permutation(table.rows)[:ROWS]
        y = binary_labels(table.y[order], "0") if name == "mnist" else table.y[order]
        sets[name] = ComparisonData(table.X[order], y)
    return sets


def curves_of(name: str, data: ComparisonData) -> list[StalenessCurve]:
    """Train with every batch size, learning rate and staleness.

    Parameters
    ----------
    name : str
        Data set.
    data : ComparisonData

    Returns
    -------
    list of StalenessCurve
        Staleness 0 and 1 alternate.
    """
    device, curves = EmulatorDevice(), []
    for batch in BATCHES:
        suggested = suggest_learning_rate(data.X, batch, PRECISION)
        for times in TIMES:
            schedule = TrainingSchedule(EPOCHS, batch, times * suggested)
            for staleness in (0, 1):
                run = train_as(data, PRECISION, schedule, device, staleness)
                losses = data.result(PRECISION, run.models(), schedule.loss).losses / constant_loss(data.y)
                curves.append(StalenessCurve(name, batch, times, schedule.learning_rate, staleness, losses.tolist()))
    return curves


def text(curves: Sequence[StalenessCurve]) -> str:
    """Return a table with one line per batch size and learning rate, and a column per epoch and staleness."""
    epochs = [f"epoch {epoch}: {staleness}" for epoch in SHOWN for staleness in (0, 1)]
    cells = [("data", "batch", "learning rate", *epochs)]
    for fresh, stale in zip(curves[::2], curves[1::2], strict=True):
        losses = [f"{curve.losses[epoch - 1]:.4g}" for epoch in SHOWN for curve in (fresh, stale)]
        cells.append((fresh.name, str(fresh.batch), f"{fresh.rate:.3g}", *losses))
    return align_columns(cells)


def draw(curves: Sequence[StalenessCurve], path: Path) -> None:
    """Draw the losses, one panel per data set and batch size.

    Parameters
    ----------
    curves : sequence of StalenessCurve
    path : Path
        The figure; the function creates missing parent folders.
    """
    pyplot = require_extra("matplotlib.pyplot", "plotting")
    names = sorted({curve.name for curve in curves})
    figure, axes = pyplot.subplots(len(names), len(BATCHES), figsize=SIZE, sharex=True, layout="constrained")
    for row, name in zip(axes, names, strict=True):
        for axis, batch in zip(row, BATCHES, strict=True):
            for curve in curves:
                if (curve.name, curve.batch) == (name, batch):
                    axis.plot(
                        range(1, EPOCHS + 1),
                        curve.losses,
                        color=f"C{TIMES.index(curve.times)}",
                        linestyle="--" if curve.staleness else "-",
                        label=f"{curve.times:g} x rate, staleness {curve.staleness}",
                    )
            shown = [loss for line in axis.lines for loss in line.get_ydata() if loss <= 1]
            axis.set_ylim(0.98 * min(shown), 1.05 * max(shown))  # diverging curves leave the panel
            axis.set_title(f"{name}, batch {batch}", fontsize="small")
            axis.tick_params(labelsize="x-small", which="both")
    figure.supxlabel("epoch", fontsize="small")
    figure.supylabel("loss over that of a constant", fontsize="small")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(TIMES), fontsize="x-small")
    path.parent.mkdir(parents=True, exist_ok=True)
    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": "bitlane"}):  # small and reproducible files
        figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    """Print the table; draw the figure if a path is given."""
    parser = argparse.ArgumentParser(description="Measure how staleness affects convergence.")
    parser.add_argument("out", type=Path, nargs="?", metavar="FILE.svg", help="write a figure to this file")
    out: Path | None = parser.parse_args().out
    curves: list[StalenessCurve] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # constant columns; some rates are meant to diverge
        for name, data in data_sets().items():
            curves += curves_of(name, data)
    print(f"s={PRECISION.bits}, fresh draws; loss over the loss of a constant model, staleness 0 and 1")
    print(text(curves))
    if out is not None:
        draw(curves, out)


if __name__ == "__main__":
    main()
