"""Cycles to reach the loss of 32 bits (ZipML, section 4.1, figure 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bitlane.contract.precision import Precision
from bitlane.devices import Device, open_device
from bitlane.errors import DeviceError
from bitlane.evaluation.compare import FULL, Comparison, train_as
from bitlane.quantization.labels import curve_label

from ..claim import Claim, ClaimVerdict, Log, markdown_table, spread
from .sizes import ZipMLSize
from .tasks import LinearTask, comparisons, synthetic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW = (Precision(4), Precision(6), Precision(8))
NOISES = (0.1, 1.0)  # label noise, in standard deviations of the labels
EPOCHS = 10
WITHIN = 1.01  # ratio of the target to the final loss of 32 bits
CLAIMED = 6.0  # required speed-up; the paper has 6 to 7 in the text, and up to 6.5 in the abstract


@dataclass(frozen=True)
class CycleRace:
    """A task and its comparisons with cycles, one for each seed; results are float64, 32 bits, then `FEW`."""

    task: LinearTask
    comparisons: Sequence[Comparison]

    def speedups(self, index: int) -> list[float]:
        """Return the speed-up over 32 bits for each seed: the ratio of cycles to `WITHIN` times the final loss of 32
        bits; 0 if it is not reached.
        """
        ratios = []
        for comparison in self.comparisons:
            goal = WITHIN * comparison.results[1].loss
            longest, mine = comparison.results[1].cycles_to(goal), comparison.results[index].cycles_to(goal)
            ratios.append(longest / mine if longest and mine else 0.0)
        return ratios

    def best(self) -> float:
        """Return the largest mean speed-up of any precision."""
        return max(float(np.mean(self.speedups(2 + index))) for index in range(len(FEW)))


def measure(size: ZipMLSize, log: Log) -> Claim:
    """Compare precisions on Synthetic 100 with little and with much noise, on one 64-bit port.

    The emulator trains and predicts cycles. If the RTL can be built, one epoch of each precision runs on it as a check.
    """
    emulator = open_device("emulator")
    try:
        tasks = [synthetic(size.rows, min(size.epochs, EPOCHS), noise) for noise in NOISES]
        races = [CycleRace(task, comparisons(task, FEW, size.seeds, emulator, log)) for task in tasks]
        return judge(races, _on_rtl(tasks[0], emulator, log))
    finally:
        emulator.close()


def _on_rtl(task: LinearTask, emulator: Device, log: Log) -> bool:
    """Run one epoch of each precision on the RTL; return False if it cannot be built."""
    try:
        rtl = open_device("rtl")
    except DeviceError as error:
        log(f"cannot build the RTL, so cycles are only predicted: {error}")
        return False
    try:
        check_on_rtl(task, FEW, rtl, emulator)
    finally:
        rtl.close()
    return True


def check_on_rtl(task: LinearTask, precisions: Sequence[Precision], rtl: Device, emulator: Device) -> list[int]:
    """Run one epoch at 32 bits and at each precision on the RTL; return the cycles, including start-up and storing.

    Raises
    ------
    DeviceError
        If cycles or weights of the RTL differ from the emulator.
    """
    schedule, cycles = replace(task.schedule, epochs=1), []
    for precision in (FULL, *precisions):
        first, second = (train_as(task.data, precision, schedule, device) for device in (rtl, emulator))
        if first.cycles != second.cycles or not np.array_equal(first.coef, second.coef):
            raise DeviceError(
                f"{task.name}, {precision}: cycles or weights of the RTL ({first.cycles} cycles) differ from the "
                f"emulator ({second.cycles} cycles)"
            )
        cycles.append(first.cycles)
    return cycles


def judge(races: Sequence[CycleRace], on_rtl: bool) -> Claim:
    """Return the verdict on the cycles; `on_rtl` says whether the RTL checked them."""
    best = [race.best() for race in races]
    held = [times >= CLAIMED for times in best]
    verdict = ClaimVerdict.HELD if all(held) else ClaimVerdict.PARTLY if any(held) else ClaimVerdict.FAILED
    summary = "; ".join(f"{race.task.name}: {times:.2f} times" for race, times in zip(races, best, strict=True))
    where = (
        "are predicted; one epoch of each precision on the simulated RTL has the same cycles and weights"
        if on_rtl
        else "are predicted, because the RTL could not be built"
    )
    comparison = races[0].comparisons[0]
    few = ", ".join(str(each.bits) for each in FEW)
    rows = [_row(race, index) for race in races for index in range(1, 2 + len(FEW))]
    return Claim(
        name="speed",
        title="Time to the loss of 32 bits",
        paper='Section 4.1: "FPGA with quantized data converges 6-7x faster than FPGA with full precision or Hogwild!" '
        "(abstract: up to 6.5).",
        measured=f"Cycles {where}. One port of {comparison.width} bits, {comparison.rows:,} rows of "
        f"{comparison.features} features, batch {comparison.schedule.batch_size}, {comparison.schedule.epochs} epochs. "
        f"The target is within {WITHIN - 1:.0%} of the final loss of 32 bits; mean and standard deviation of "
        f"{len(races[0].comparisons)} seeds (never: not reached in at least one seed):\n\n"
        + markdown_table(
            ["", "cycles per epoch", "speed-up per epoch", "final loss / 32 bits", "speed-up to the target"], rows
        ),
        verdict=verdict,
        reason=f"Largest speed-up to the loss of 32 bits, among {few} bits: {summary}.",
        differs=(
            "We compare simulated cycles of another accelerator, which reads 64 bits per cycle at any precision, "
            "instead of seconds. Hogwild! was not run.",
            "The required bits depend on the data. With nearly linear labels the noise of the draws dominates the "
            "final loss; with noisy labels it is negligible. The paper does not report its noise.",
        ),
        plot=lambda figure: _plot(figure, races),
    )


def _row(race: CycleRace, index: int) -> list[str]:
    results = [comparison.results[index] for comparison in race.comparisons]
    full = race.comparisons[0].results[1].cycles_per_epoch or np.nan
    mine = results[0].cycles_per_epoch or np.nan
    times = race.speedups(index)
    return [
        f"{race.task.name}, {curve_label(results[0].sampling, results[0].bits)}",
        f"{mine:,.0f}",
        f"{full / mine:.2f}",
        spread([comparison.relative(result) for comparison, result in zip(race.comparisons, results, strict=True)]),
        spread(times, 3) if all(times) else "never",
    ]


def _plot(figure: Figure, races: Sequence[CycleRace]) -> None:
    """Plot the loss over cycles of the first seed, with a panel for each task."""
    figure.set_size_inches(9.0, 3.6)
    for axes, race in zip(figure.subplots(1, len(races)), races, strict=True):
        first = race.comparisons[0]
        for result, colour in zip(first.results[1:], ("#000000", "#0072B2", "#009E73", "#D55E00"), strict=True):
            cycles = np.arange(1, len(result.losses) + 1) * (result.cycles_per_epoch or np.nan)
            axes.plot(
                cycles, result.losses / first.results[1].loss, "o-", markersize=3, color=colour, label=result.label
            )
        axes.axhline(WITHIN, color="#777777", linewidth=0.8, linestyle=":")
        axes.set(xscale="log", xlabel="cycles", ylabel="loss / final loss of 32 bits", title=race.task.name)
        axes.grid(True, color="#E6E6E6", linewidth=0.7)
        axes.legend(frameon=False, fontsize=8)
