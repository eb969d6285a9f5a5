"""Threshold scaling: whether the density becomes the one asked for, and stays (MiCRO, section IV)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from bitlane.compress.compressors.micro import MiCRO
from bitlane.studies.compression.density.gradients import SyntheticGradients
from bitlane.studies.compression.density.study import SETTLING, DensityResult, run_density

from ..claim import Claim, Log, Verdict, markdown_table
from .sizes import MicroSize

DENSITY, RANKS = 0.01, 4
KINDS = ("normal", "heavy", "layers", "falling")
SCALES = (1e-5, 1e-2, 10.0)
ENOUGH = 0.95  # of the steps
Controller = Literal["quotas", "published"]
CONTROLLERS: tuple[Controller, ...] = ("published", "quotas")

Found = Mapping[tuple[Controller, str, float], DensityResult]  # of a controller, a kind and a scale


def measure(size: MicroSize, say: Log) -> Claim:
    """Both controllers on made-up gradients of four kinds and three scales."""
    found: dict[tuple[Controller, str, float], DensityResult] = {}
    for controller in CONTROLLERS:
        for kind in KINDS:
            say(f"density: {controller}, {kind} gradients")
            for scale in SCALES:
                gradients = SyntheticGradients(kind, scale, size.values, seed=0)
                found[controller, kind, scale] = run_density(MiCRO(DENSITY, controller), gradients, RANKS, size.steps)
    return judge(found)


def judge(found: Found) -> Claim:
    """Held where the published rule has a step within the band in `ENOUGH` of the steps, whatever the gradients."""
    held = {
        name: [outcome.held >= ENOUGH for (controller, _, _), outcome in found.items() if controller == name]
        for name in CONTROLLERS
    }
    published = held["published"]
    verdict = Verdict.HELD if all(published) else Verdict.PARTLY if any(published) else Verdict.FAILED
    steps = len(next(iter(found.values())).counts)
    return Claim(
        name="scaling",
        title="A threshold that finds the density",
        paper='Section IV: "As the iterations proceed, the threshold approaches a value that satisfies the user-set '
        'density", and the scaling "is robust to varying training settings".',
        measured=f"{RANKS} ranks, {DENSITY:.0%} asked for, {steps:,} steps of made-up gradients. Within: "
        f"of the steps from the {SETTLING}th on, those whose density is within 10 % of what was asked for. Least, most "
        "and total: density over the one asked for. `published`: the threshold begins with 1 / (2 sqrt k), scaled "
        "as the authors' code has it. `quotas`: what bitlane does, no threshold to follow.\n\n"
        + markdown_table(
            ["gradients", "scale", "controller", "within", "least", "most", "total"],
            [_row(name, outcome) for name, outcome in found.items()],
        ),
        verdict=verdict,
        reason=f"The published scaling holds the density for {sum(published)} of {len(published)} kinds and scales of "
        f"gradients, quotas for {sum(held['quotas'])}.",
        differs=(
            "Made-up gradients, so that scale and shape are known; a training's densities are in the table below.",
        ),
        draw=lambda figure: _draw(figure, found),
    )


def _row(name: tuple[Controller, str, float], outcome: DensityResult) -> list[str]:
    controller, kind, scale = name
    later = outcome.ratios[SETTLING:]
    figures = (f"{outcome.held:.0%}", *(f"{each:.3g}" for each in (later.min(), later.max(), outcome.total)))
    return [kind, f"{scale:g}", controller, *figures]


def _draw(figure: Any, found: Found) -> None:
    """Density over steps, a panel a kind, a line for each scale of the published rule."""
    figure.set_size_inches(9.0, 5.2)
    colours = ("#0072B2", "#009E73", "#D55E00")
    for axes, kind in zip(figure.subplots(2, 2, sharex=True, sharey=True).flat, KINDS, strict=True):
        for scale, colour in zip(SCALES, colours, strict=True):
            ratios = found["published", kind, scale].ratios
            axes.plot(np.maximum(ratios, 0.01), color=colour, linewidth=1, label=f"published, scale {scale:g}")
        axes.plot(found["quotas", kind, SCALES[0]].ratios, color="#000000", linewidth=1.5, label="quotas, all scales")
        axes.axhspan(0.9, 1.1, color="#DDDDDD")
        axes.set(yscale="log", title=kind, xlabel="step", ylabel="density / asked for")
    axes.legend(frameon=False, fontsize=7)
