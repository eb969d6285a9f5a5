"""The bytes of a step: as the authors' code reports them, in the authors' format, and in ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bitlane.compress.compressors.micro import MiCRO
from bitlane_studies.compression.density.gradients import SyntheticGradients
from bitlane_studies.compression.density.study import DensityResult, run_density

from ..claim import Claim, ClaimVerdict, Log, markdown_table
from .sizes import MicroSize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DENSITIES = (0.001, 0.01, 0.1)
RANKS = (2, 4, 8)
STEPS = 5
LARGER = 50  # factor on the number of values, so that fixed bytes have the same share as in a real network
TOLERANCE = 0.1  # relative difference between reported and sent bytes

Results = Mapping[tuple[float, int], DensityResult]  # by density and number of ranks


def measure(size: MicroSize, log: Log) -> Claim:
    """Count the bytes of both formats for the same selections from normal gradients."""
    results = {}
    for density in DENSITIES:
        for ranks in RANKS:
            log(f"traffic: density {density:g}, {ranks} ranks")
            gradients = SyntheticGradients("normal", 1.0, LARGER * size.values, seed=0)
            results[density, ranks] = run_density(MiCRO(density), gradients, ranks, STEPS)
    return judge(results)


def judge(results: Results) -> Claim:
    """Return the verdict: held if the bytes that the authors' code reports are about those that its format sends."""
    near = [abs(result.authors_bytes / reported_bytes(result) - 1) <= TOLERANCE for result in results.values()]
    verdict = ClaimVerdict.HELD if all(near) else ClaimVerdict.PARTLY if any(near) else ClaimVerdict.FAILED
    ratios = [result.sent / result.authors_bytes for result in results.values()]
    index = [result.index_bytes / result.entropy for result in results.values()]
    return Claim(
        name="traffic",
        title="Bytes of a step",
        paper="For each step the published code reports the 64-bit indices that a rank selected, padded to the "
        "largest count of any rank, and the float32 values at all indices.",
        measured=f"{_values(results):,} values. KiB that a rank sends in a step, mean over ranks. Reported: by the "
        "authors' code. Authors: sent in the authors' format, with indices to all ranks and a ring all-reduce of "
        "values. Ours: counted at the transport, with Golomb-Rice codes of indices to all ranks, values to their owner "
        "and back, and all lengths and tails. Index: bytes of the codes relative to the entropy of the indices.\n\n"
        + markdown_table(
            ["density", "ranks", "reported", "authors", "ours", "ours / authors", "index"],
            [_row(name, result) for name, result in results.items()],
        ),
        verdict=verdict,
        reason=f"The published code reports {_least(results):.2f} to {_most(results):.2f} of the bytes that its format "
        f"sends. Our format sends {min(ratios):.2f} to {max(ratios):.2f} of them; its indices take at most "
        f"{max(index):.3f} times their entropy.",
        differs=("The bytes of the authors' format follow from formulas of their collectives, not from a network.",),
        plot=lambda figure: _plot(figure, results),
    )


def reported_bytes(result: DensityResult) -> int:
    """Return the bytes of all ranks and steps that the authors' code reports."""
    ranks = result.counts.shape[1]
    return int(ranks * (8 * result.counts.max(axis=1) + 4 * result.counts.sum(axis=1)).sum())


def _values(results: Results) -> int:
    (density, _), result = next(iter(results.items()))
    return round(result.wanted / density)


def _least(results: Results) -> float:
    return min(reported_bytes(result) / result.authors_bytes for result in results.values())


def _most(results: Results) -> float:
    return max(reported_bytes(result) / result.authors_bytes for result in results.values())


def _row(name: tuple[float, int], result: DensityResult) -> list[str]:
    density, ranks = name
    each = len(result.counts) * ranks * 1024
    sizes = [f"{size / each:.2f}" for size in (reported_bytes(result), result.authors_bytes, result.sent)]
    index = result.index_bytes / result.entropy
    return [f"{density:g}", str(ranks), *sizes, f"{result.sent / result.authors_bytes:.3f}", f"{index:.3f}"]


def _plot(figure: Figure, results: Results) -> None:
    """Plot bars over the numbers of ranks, at the second density."""
    figure.set_size_inches(5.5, 3.6)
    axes = figure.subplots()
    shown = [results[DENSITIES[1], ranks] for ranks in RANKS]
    bars = {
        "authors, as reported": ([reported_bytes(each) for each in shown], "#999999"),
        "authors, as sent": ([each.authors_bytes for each in shown], "#D55E00"),
        "ours, as sent": ([each.sent for each in shown], "#0072B2"),
    }
    for index, (label, (sizes, colour)) in enumerate(bars.items()):
        each = [size / len(of.counts) / of.counts.shape[1] / 1024 for size, of in zip(sizes, shown, strict=True)]
        axes.bar([x + 0.27 * (index - 1) for x in range(len(RANKS))], each, 0.25, color=colour, label=label)
    axes.set(xlabel="ranks", ylabel="KiB per rank and step", title=f"density {DENSITIES[1]:.0%}")
    axes.set_xticks(range(len(RANKS)), [str(ranks) for ranks in RANKS])
    axes.legend(frameon=False, fontsize=8)
