"""What a step sends: in the authors' format, as their code counts it, and here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bitlane.compress.compressors.micro import MiCRO
from bitlane.studies.compression.density.gradients import SyntheticGradients
from bitlane.studies.compression.density.study import DensityResult, run_density

from ..claim import Claim, Log, Verdict, markdown_table
from .sizes import MicroSize

DENSITIES = (0.001, 0.01, 0.1)
RANKS = (2, 4, 8)
STEPS = 5
LARGER = 50  # times the values of other claims: fixed bytes are to weigh what they weigh in a network
NEAR = 0.1  # between what is counted and what is sent

Found = Mapping[tuple[float, int], DensityResult]  # of a density and a number of ranks


def measure(size: MicroSize, say: Log) -> Claim:
    """Normal gradients; the same selections in both formats."""
    found = {}
    for density in DENSITIES:
        for ranks in RANKS:
            say(f"traffic: density {density:g}, {ranks} ranks")
            gradients = SyntheticGradients("normal", 1.0, LARGER * size.values, seed=0)
            found[density, ranks] = run_density(MiCRO(density), gradients, ranks, STEPS)
    return judge(found)


def judge(found: Found) -> Claim:
    """Held where the bytes that the authors' code counts are about those that its format puts on the wire."""
    near = [abs(outcome.authors / counted(outcome) - 1) <= NEAR for outcome in found.values()]
    verdict = Verdict.HELD if all(near) else Verdict.PARTLY if any(near) else Verdict.FAILED
    ratios = [outcome.sent / outcome.authors for outcome in found.values()]
    index = [outcome.index_bytes / outcome.entropy for outcome in found.values()]
    return Claim(
        name="traffic",
        title="Bytes of a step",
        paper="The published code reports, of a step, the 64-bit places that a rank chose, padded to the most that any "
        "rank chose, and the float32 values of all places.",
        measured=f"{_values(found):,} values. KiB that a rank sends in a step, mean over ranks. Authors: their format, "
        "places go to all, values by ring all-reduce, as it leaves a rank; counted: what their code reports of it. "
        "Here: counted at the transport, Golomb-Rice codes of places to all, values to their owner and back, with all "
        "lengths and tails. Index: bytes of the codes over the entropy of the places.\n\n"
        + markdown_table(
            ["density", "ranks", "counted", "authors", "here", "here over authors", "index"],
            [_row(name, outcome) for name, outcome in found.items()],
        ),
        verdict=verdict,
        reason=f"The published code reports between {_least(found):.2f} and {_most(found):.2f} of what its format "
        f"sends; here {min(ratios):.2f} to {max(ratios):.2f} of that goes out, places at {max(index):.3f} times their "
        "entropy at most.",
        differs=("Bytes by the formulas of the authors' collectives, not from their network.",),
        draw=lambda figure: _draw(figure, found),
    )


def counted(outcome: DensityResult) -> int:
    """Bytes that the authors' code reports, of all ranks and steps."""
    ranks = outcome.counts.shape[1]
    return int(ranks * (8 * outcome.counts.max(axis=1) + 4 * outcome.counts.sum(axis=1)).sum())


def _values(found: Found) -> int:
    (density, _), outcome = next(iter(found.items()))
    return round(outcome.wanted / density)


def _least(found: Found) -> float:
    return min(counted(outcome) / outcome.authors for outcome in found.values())


def _most(found: Found) -> float:
    return max(counted(outcome) / outcome.authors for outcome in found.values())


def _row(name: tuple[float, int], outcome: DensityResult) -> list[str]:
    density, ranks = name
    each = len(outcome.counts) * ranks * 1024
    sizes = [f"{size / each:.2f}" for size in (counted(outcome), outcome.authors, outcome.sent)]
    index = outcome.index_bytes / outcome.entropy
    return [f"{density:g}", str(ranks), *sizes, f"{outcome.sent / outcome.authors:.3f}", f"{index:.3f}"]


def _draw(figure: Any, found: Found) -> None:
    """Bars over the numbers of ranks, at the density in the middle."""
    figure.set_size_inches(5.5, 3.6)
    axes = figure.subplots()
    outcomes = [found[DENSITIES[1], ranks] for ranks in RANKS]
    bars = {
        "authors, as counted": ([counted(each) for each in outcomes], "#999999"),
        "authors, as sent": ([each.authors for each in outcomes], "#D55E00"),
        "here, as sent": ([each.sent for each in outcomes], "#0072B2"),
    }
    for place, (label, (sizes, colour)) in enumerate(bars.items()):
        each = [size / len(of.counts) / of.counts.shape[1] / 1024 for size, of in zip(sizes, outcomes, strict=True)]
        axes.bar([x + 0.27 * (place - 1) for x in range(len(RANKS))], each, 0.25, color=colour, label=label)
    axes.set(xlabel="ranks", ylabel="KiB of a rank and step", title=f"density {DENSITIES[1]:.0%}")
    axes.set_xticks(range(len(RANKS)), [str(ranks) for ranks in RANKS])
    axes.legend(frameon=False, fontsize=8)
