"""The first picture: one training with 32 bits, and with 4 bits by double sampling and by nearest rounding."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from common import BATCH, Size, Table, main, percent
from matplotlib.figure import Figure

from bitlane.contract.precision import Precision
from bitlane.data.datasets import load_dataset
from bitlane.evaluation.compare import ComparisonData, compare
from bitlane.evaluation.schedules import TrainingSchedule

DATA = "cadata"
TICKS = (0.5, 1, 2, 5, 10, 20, 50)  # MB
CURVES = {  # precision: label, colour, width
    Precision(32, "full"): ("32 bits", "black", 1.2),
    Precision(4, "nearest"): ("4 bits, nearest rounding", "#d55e00", 1.8),
    Precision(4, "double"): ("4 bits, double sampling", "#0072b2", 1.8),
}


def measure(size: Size) -> tuple[Figure, Table, str]:
    """Train with the schedule of `tests/host/evaluation/test_claims.py`, on all rows."""
    table = load_dataset("diabetes" if size.quick else DATA)
    schedule = TrainingSchedule(epochs=size.epochs, batch_size=BATCH, learning_rate=1.0, decay=0.8)
    losses: dict[Precision, list[np.ndarray]] = {precision: [] for precision in CURVES}
    bytes_per_epoch = {}
    for seed in size.seeds:
        order = np.random.default_rng(seed).permutation(table.rows)
        data = ComparisonData(np.asarray(table.X)[order], np.asarray(table.y, np.float64)[order])
        for result in compare(data, list(CURVES), replace(schedule, seed=seed)).results:
            precision = next(
                (each for each in CURVES if (each.bits, each.sampling) == (result.bits, result.sampling)), None
            )
            if precision is not None:
                losses[precision].append(result.losses)
                bytes_per_epoch[precision] = result.bytes_per_epoch
    curves = {precision: np.mean(found, axis=0) for precision, found in losses.items()}
    full = curves[Precision(32, "full")][-1]
    figure, axis = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    rows = []
    for precision, (label, color, width) in CURVES.items():
        megabytes = np.arange(1, size.epochs + 1) * bytes_per_epoch[precision] / 1e6
        final = curves[precision][-1] / full
        axis.plot(megabytes, curves[precision] / full, color=color, linewidth=width, label=f"{label}: {final:.3f}")
        rows.append([label, f"{megabytes[-1]:.1f}", f"{final:.3f}", percent(final)])
    axis.set(xscale="log", xlabel="bytes read, MB", ylabel="loss over the final loss of 32 bits")
    axis.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axis.set_title(f"{DATA}: {table.rows:,} rows, {table.X.shape[1]} features, {size.epochs} epochs each", fontsize=9)
    axis.legend(title="final loss", frameon=False)
    about = f"{DATA}, {size.epochs} epochs, batch {BATCH}, decay 0.8, learning rate 1, fresh draws."
    return figure, Table(["training", "MB read", "final loss", "against 32 bits"], rows), about


if __name__ == "__main__":
    main("thesis", measure)
