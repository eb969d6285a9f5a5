"""The fewest bits that converge smoothly (ZipML, sections 4.1 and 4.2, figures 7a and 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..compare import Comparison
from ..devices import Device
from ..plots import Curve, loss_panel
from ..quantize import Precision
from .claim import Claim, Say, Size, Verdict, markdown_table, spread
from .tasks import comparisons, real, synthetic

BITS = (2, 4, 6, 8)
NAMES = ("millionsong_6719", "cadata", "cpusmall")
RISE = 1.01  # of the loss over that of an earlier epoch, at most, in a smooth curve
SAME = 1.01  # final loss over that of 32 bits
MOST = 6  # the paper's 5 or 6


def smooth(comparison: Comparison, place: int) -> bool:
    """Whether the losses at `place` stay within `RISE` of earlier ones, and the last within `SAME` of 32 bits'."""
    losses = comparison.results[place].losses
    lowest = np.minimum.accumulate(losses)
    return bool(np.all(losses <= RISE * lowest)) and comparison.relative(comparison.results[place]) <= SAME


def fewest(found: Sequence[Comparison]) -> int | None:
    """The fewest of `BITS` from which on every precision is smooth in all seeds; None where not even the most is."""
    enough = None
    for place in reversed(range(len(BITS))):
        if not all(smooth(comparison, 2 + place) for comparison in found):
            break
        enough = BITS[place]
    return enough


def measure(size: Size, device: Device, say: Say) -> Claim:
    """Uniform levels at 2 to 8 bits on the paper's kinds of sets."""
    tasks = [synthetic(size.rows, size.epochs), *(real(name, size.rows, size.epochs) for name in NAMES)]
    precisions = [Precision(bits) for bits in BITS]
    return judge({task.name: comparisons(task, precisions, size.seeds, device, say) for task in tasks})


def judge(found: dict[str, list[Comparison]]) -> Claim:
    """What the curves say."""
    bits = {name: fewest(each) for name, each in found.items()}
    good = [name for name, each in bits.items() if each is not None and each <= MOST]
    verdict = Verdict.HELD if len(good) == len(bits) else Verdict.PARTLY if good else Verdict.FAILED
    rows = [
        [
            name,
            *(spread([each.relative(each.results[2 + place]) for each in seeds]) for place in range(len(BITS))),
            str(bits[name] or f"more than {BITS[-1]}"),
        ]
        for name, seeds in found.items()
    ]
    first = next(iter(found.values()))
    return Claim(
        name="fewest",
        title="The fewest bits that converge smoothly",
        paper='Section 4.1: 5 or 6 bits are the smallest number "that results in a smooth convergence curve".',
        measured=f"Final loss over that of 32 bits, uniform levels, {first[0].schedule.epochs} epochs of "
        f"batch {first[0].schedule.batch_size}, mean and standard deviation of {len(first)} seeds. Smooth: in no seed "
        f"does an epoch end more than {RISE - 1:.0%} above an earlier one, nor the last more than {SAME - 1:.0%} above "
        "32 bits.\n\n" + markdown_table(["", *(f"{each} bits" for each in BITS), "fewest smooth"], rows),
        verdict=verdict,
        reason=f"{MOST} bits or fewer are enough on {len(good)} of {len(bits)} sets. Fewest: "
        + "; ".join(f"{name}: {each or f'more than {BITS[-1]}'}" for name, each in bits.items())
        + ".",
        differs=(
            "YearPredictionMSD (90 features) cannot be had: millionsong_6719 has 12 of them and 6,719 rows.",
            "Uniform levels are stored in an even number of bits.",
        ),
        draw=lambda figure: _draw(figure, found),
    )


def _draw(figure: Any, found: dict[str, list[Comparison]]) -> None:
    """A panel a data set: loss over what 32 bits end with, of the first seed."""
    figure.set_size_inches(9.0, 6.0)
    for axes, (name, seeds) in zip(figure.subplots(2, 2).flat, found.items(), strict=True):
        first = seeds[0]
        unit = first.results[1].loss
        curves = [Curve(each.label, each.sampling, each.bits, each.losses / unit, None) for each in first.results[1:]]
        ceiling = first.constant / unit
        loss_panel(axes, curves, over="epochs", title=name, ylabel="loss over 32 bits' last", ceiling=ceiling)
    figure.axes[0].legend(frameon=False, fontsize=8)
