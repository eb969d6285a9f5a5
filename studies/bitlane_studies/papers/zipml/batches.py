"""Mini-batches of 16 and 256 samples (ZipML, section 4.1, figure 6)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.precision import Precision
from bitlane.devices import open_device
from bitlane.evaluation.compare import Comparison
from bitlane.reporting.plots import LossCurve, loss_panel

from ..claim import Claim, ClaimVerdict, Log, markdown_table, spread
from .sizes import ZipMLSize
from .tasks import WIDTH, LinearTask, comparisons, synthetic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALL, LARGE = 16, 256
FEW = (Precision(4), Precision(6))
WITHIN = 1.1  # largest ratio of the loss to the least-squares optimum that counts as converged
RATE = 0.1  # near the largest learning rate at which full precision converges in one epoch of the small batch


@dataclass(frozen=True)
class BatchComparison:
    """Comparisons with one batch size, one for each seed; results are float64, 32 bits, then `FEW`."""

    size: int
    comparisons: Sequence[Comparison]

    def epochs(self, index: int) -> list[float]:
        """Return the epochs to `WITHIN` times the optimum for each seed; infinite if it is not reached."""
        return [each.results[index].epochs_to(WITHIN * (each.optimum or 0.0)) or np.inf for each in self.comparisons]

    def final_losses(self, index: int) -> list[float]:
        """Return the final loss of each seed relative to the optimum."""
        return [each.results[index].loss / (each.optimum or np.nan) for each in self.comparisons]


def measure(size: ZipMLSize, log: Log) -> Claim:
    """Compare both batch sizes on Synthetic 100, with one learning rate."""
    task = synthetic(size.rows, size.epochs)
    batches = []
    with closing(open_device("emulator", AcceleratorConfig(WIDTH))) as device:
        for batch in (SMALL, LARGE):
            schedule = replace(task.schedule, batch_size=batch, learning_rate=RATE)
            named = LinearTask(f"{task.name}, batch {batch}", task.data, schedule)
            batches.append(BatchComparison(batch, comparisons(named, FEW, size.seeds, device, log)))
    return judge(*batches)


def judge(small: BatchComparison, large: BatchComparison) -> Claim:
    """Return the verdict on the comparisons."""
    full = _mean(large.epochs(1)) > _mean(small.epochs(1))
    sooner = {each.bits: _sooner(large, small, 2 + index) for index, each in enumerate(FEW)}
    held = [full, *sooner.values()]
    verdict = ClaimVerdict.HELD if all(held) else ClaimVerdict.PARTLY if any(held) else ClaimVerdict.FAILED
    few = ", ".join(f"{'faster' if each else 'not faster'} at {bits} bits" for bits, each in sooner.items())
    reason = f"The large batch {'needs' if full else 'does not need'} more epochs at 32 bits; it converges {few}."
    return Claim(
        name="batches",
        title="Mini-batches of 16 and 256",
        paper='Section 4.1: "if we use larger mini-batch size (256), we need more epochs than using smaller mini-batch '
        "size (16) to converge, but for the quantized version, actually the one with larger mini-batch size converges "
        'faster".',
        measured=_table((small, large)),
        verdict=verdict,
        reason=reason,
        differs=(
            "The paper gives neither the number of bits nor the step sizes for the two batches. We use the same "
            "learning rate for both, applied to the mean gradient of a batch. The large batch makes a sixteenth of the "
            "steps per epoch.",
            "We generate Synthetic 100 ourselves, as above.",
        ),
        plot=lambda figure: _plot(figure, (small, large)),
    )


def _sooner(one: BatchComparison, other: BatchComparison, index: int) -> bool:
    """Return whether `one` needs fewer epochs, or has a lower final loss if neither converges."""
    mine, others = _mean(one.epochs(index)), _mean(other.epochs(index))
    return mine < others or (mine == others and _mean(one.final_losses(index)) < _mean(other.final_losses(index)))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _table(batches: Sequence[BatchComparison]) -> str:
    rows = []
    for index, name in enumerate(["32 bits", *(f"double, {each.bits} bits" for each in FEW)], start=1):
        cells = [name]
        for batch in batches:
            epochs = batch.epochs(index)
            cells += [spread(epochs, 3) if np.isfinite(epochs).all() else "never", spread(batch.final_losses(index))]
        rows.append(cells)
    headings = [""]
    for batch in batches:
        headings += [f"batch {batch.size}: epochs to {WITHIN - 1:.0%}", f"batch {batch.size}: final loss"]
    comparison = batches[0].comparisons[0]
    return (
        f"Synthetic 100, {comparison.rows:,} rows of {comparison.features} features, {comparison.schedule.epochs} "
        f"epochs, learning rate {comparison.schedule.learning_rate:g}. Final loss: relative to the least-squares "
        f"optimum. Epochs: until the loss is at most {WITHIN - 1:.0%} above the optimum. Mean and standard deviation "
        f"of {len(batches[0].comparisons)} seeds:\n\n" + markdown_table(headings, rows)
    )


def _plot(figure: Figure, batches: Sequence[BatchComparison]) -> None:
    """Plot the losses, with a panel for each precision."""
    figure.set_size_inches(9.0, 3.2)
    for axes, index in zip(figure.subplots(1, 1 + len(FEW), sharey=True), range(1, 2 + len(FEW)), strict=True):
        curves = []
        for batch, look in zip(batches, ("full", "double"), strict=True):
            result, optimum = batch.comparisons[0].results[index], batch.comparisons[0].optimum or np.nan
            curves.append(LossCurve(f"batch {batch.size}", look, 32, result.losses / optimum, None))
        title = batches[0].comparisons[0].results[index].label
        loss_panel(axes, curves, over="epochs", title=title, ylabel="loss / optimum", ceiling=10.0)
        axes.legend(frameon=False)
