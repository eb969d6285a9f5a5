"""Samples, model and gradient of few bits at once (ZipML, section 2.3 and figure 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bitlane import SGDRegressor
from bitlane.evaluation.metrics import losses_of
from bitlane.quantization.scaling import Floats
from bitlane.reporting.plots import SPREAD

from ..claim import Claim, ClaimVerdict, Log, markdown_table, spread
from .sizes import ZipMLSize
from .tasks import LinearTask, real, synthetic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS = (8, 6, 5, 4)
JUDGED = 6
SAME = 1.01  # largest ratio of the mean final loss to that of 32 bits
COLOURS = dict(zip(BITS, ("#0072B2", "#009E73", "#E69F00", "#D55E00"), strict=True))


@dataclass(frozen=True)
class PartsCurves:
    """Losses of a data set by epoch over the final loss of 32 bits (`full`): float64 [seeds, epochs]."""

    task: LinearTask
    full: Floats
    few: Mapping[int, Floats]

    def holds(self) -> bool:
        """Return whether JUDGED bits of each part end within SAME of 32 bits, in the mean over the seeds."""
        return float(self.few[JUDGED][:, -1].mean()) <= SAME


def measure(size: ZipMLSize, log: Log) -> Claim:
    """Train with all three parts of few bits on the sets of `convergence`; cod-rna and a9a are LS-SVM."""
    names = ("cadata", "cpusmall", "cod-rna", "a9a")
    tasks = [synthetic(size.rows, size.epochs), *(real(name, size.rows, size.epochs) for name in names)]
    return judge([curves(task, size.part_seeds, log) for task in tasks])


def curves(task: LinearTask, seeds: int, log: Log) -> PartsCurves:
    """Run all trainings of a data set; a seed determines row order, draws and rounding."""
    full = np.empty((seeds, task.schedule.epochs))
    few = {bits: np.empty_like(full) for bits in BITS}
    for seed in range(seeds):
        log(f"{task.name}, samples, model and gradient: seed {seed + 1} of {seeds}")
        full[seed] = _losses(task, seed, bits=32, sampling="full")
        for bits in BITS:
            few[bits][seed] = _losses(task, seed, bits=bits, model_bits=bits, gradient_bits=bits)
    last = full[:, -1:]
    return PartsCurves(task, full / last, {bits: losses / last for bits, losses in few.items()})


def _losses(task: LinearTask, seed: int, **options: Any) -> Floats:
    """Return the losses of the models after each epoch on the unquantized rows, float64 [epochs]."""
    schedule = task.schedule
    options |= {"epochs": schedule.epochs, "batch_size": schedule.batch_size, "device": "cpu", "random_state": seed}
    run = SGDRegressor(**options).fit(task.data.X, task.data.y, snapshots=True).run_
    return losses_of(task.data.X, task.data.y, *run.models(), "squared_error")


def judge(cases: Sequence[PartsCurves]) -> Claim:
    """Return the verdict on the curves."""
    held = [case.task.name for case in cases if case.holds()]
    missed = [case.task.name for case in cases if not case.holds()]
    schedule = cases[0].task.schedule
    rows = [[case.task.name, *(spread(case.few[bits][:, -1].tolist()) for bits in BITS)] for case in cases]
    return Claim(
        name="end_to_end",
        title="Samples, model and gradient of few bits",
        paper="Figure 4: linear regression and LS-SVM with samples, model and gradient quantized converge as with 32 "
        "bits, with 5 or 6 bits of each.",
        measured=f"Final loss on the training rows relative to that of 32 bits, after {schedule.epochs} epochs with "
        f"batch size {schedule.batch_size}, with as many bits of samples, model and gradient; mean and standard "
        f"deviation of {len(cases[0].full)} seeds:\n\n"
        + markdown_table(["", *(f"{bits} bits" for bits in BITS)], rows),
        verdict=ClaimVerdict.HELD if not missed else ClaimVerdict.PARTLY if held else ClaimVerdict.FAILED,
        reason=f"With {JUDGED} bits of each part the mean final loss is within {SAME - 1:.0%} of that of 32 bits on "
        f"{', '.join(held) or 'no data set'}" + (f"; not on {', '.join(missed)}." if missed else "."),
        differs=(
            "The model's range is a power of two that the training chooses, twice the largest weight of a "
            "least-squares solution for some rows; the paper divides the model by its norm. The gradient's unit falls "
            "with the step.",
            "The learning rate is the automatic one of each precision, which is lower where rounding adds much to the "
            "noise. The data sets are those of the claim above.",
        ),
        plot=lambda figure: _plot(figure, cases),
    )


def _plot(figure: Figure, cases: Sequence[PartsCurves]) -> None:
    """Plot the loss of the first seed relative to the final loss of 32 bits, with a panel for each data set."""
    figure.set_size_inches(9.0, 6.0)
    for axes, case in zip(figure.subplots(2, 3).flat, cases, strict=False):
        epochs = np.arange(1, case.full.shape[1] + 1)
        axes.plot(epochs, case.full[0], color="black", label="32 bits")
        for bits in BITS:
            axes.plot(epochs, case.few[bits][0], color=COLOURS[bits], label=f"{bits} bits of each part")
        scale = "log" if max(case.few[bits][0].max() for bits in BITS) > SPREAD else "linear"
        axes.set(yscale=scale, xlabel="epoch", ylabel="loss / final loss of 32 bits", title=case.task.name)
        axes.grid(True, which="both", color="#E6E6E6", linewidth=0.7)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.axes[-1].set_axis_off()
    figure.axes[-1].legend(handles, labels, loc="center", frameon=False, handlelength=3.2)
