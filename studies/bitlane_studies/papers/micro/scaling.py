"""Threshold scaling: convergence of the density to the requested one (MiCRO, section IV)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from bitlane.compress.compressors.micro import MiCRO
from bitlane_studies.compression.density.gradients import SyntheticGradients
from bitlane_studies.compression.density.study import SETTLING, DensityResult, run_density

from ..claim import Claim, ClaimVerdict, Log, markdown_table
from .sizes import MicroSize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DENSITY, RANKS = 0.01, 4
KINDS = ("normal", "heavy", "layers", "falling")
SCALES = (1e-5, 1e-2, 10.0)
MIN_SHARE = 0.95  # share of the steps within the band from which the density counts as held
Controller = Literal["quotas", "published"]
CONTROLLERS: tuple[Controller, ...] = ("published", "quotas")

Results = Mapping[tuple[Controller, str, float], DensityResult]  # by controller, kind and scale


def measure(size: MicroSize, log: Log) -> Claim:
    """Run both controllers on synthetic gradients of four kinds and three scales."""
    results: dict[tuple[Controller, str, float], DensityResult] = {}
    for controller in CONTROLLERS:
        for kind in KINDS:
            log(f"density: {controller}, {kind} gradients")
            for scale in SCALES:
                gradients = SyntheticGradients(kind, scale, size.values, seed=0)
                results[controller, kind, scale] = run_density(MiCRO(DENSITY, controller), gradients, RANKS, size.steps)
    return judge(results)


def judge(results: Results) -> Claim:
    """Return the verdict: held if `MIN_SHARE` of the steps of the published rule are in the band for all gradients."""
    held = {
        name: [
            result.share_in_band >= MIN_SHARE for (controller, _, _), result in results.items() if controller == name
        ]
        for name in CONTROLLERS
    }
    published = held["published"]
    verdict = ClaimVerdict.HELD if all(published) else ClaimVerdict.PARTLY if any(published) else ClaimVerdict.FAILED
    steps = len(next(iter(results.values())).counts)
    return Claim(
        name="scaling",
        title="Convergence of the threshold",
        paper='Section IV: "As the iterations proceed, the threshold approaches a value that satisfies the user-set '
        'density", and the scaling "is robust to varying training settings".',
        measured=f"{RANKS} ranks, a requested density of {DENSITY:.0%}, {steps:,} steps of synthetic gradients. "
        f"Within: share of the steps after the first {SETTLING} with a density within 10 % of the requested one. "
        "Least, most and total: density relative to the requested one. `published`: the threshold starts at "
        "1 / (2 sqrt k) and is scaled as in the authors' code. `quotas`: bitlane's default, without a threshold.\n\n"
        + markdown_table(
            ["gradients", "scale", "controller", "within", "least", "most", "total"],
            [_row(name, result) for name, result in results.items()],
        ),
        verdict=verdict,
        reason=f"The published scaling holds the requested density for {sum(published)} of {len(published)} "
        f"combinations of gradient kind and scale, and quotas for {sum(held['quotas'])}.",
        differs=(
            "The gradients are synthetic, so that their scale and distribution are known. The section on training has "
            "the densities of a real training.",
        ),
        plot=lambda figure: _plot(figure, results),
    )


def _row(name: tuple[Controller, str, float], result: DensityResult) -> list[str]:
    controller, kind, scale = name
    later = result.ratios[SETTLING:]
    figures = (f"{result.share_in_band:.0%}", *(f"{each:.3g}" for each in (later.min(), later.max(), result.total)))
    return [kind, f"{scale:g}", controller, *figures]


def _plot(figure: Figure, results: Results) -> None:
    """Plot the density over steps, with a panel for each kind and a line for each scale of the published rule."""
    figure.set_size_inches(9.0, 5.2)
    colours = ("#0072B2", "#009E73", "#D55E00")
    for axes, kind in zip(figure.subplots(2, 2, sharex=True, sharey=True).flat, KINDS, strict=True):
        for scale, colour in zip(SCALES, colours, strict=True):
            ratios = results["published", kind, scale].ratios
            axes.plot(np.maximum(ratios, 0.01), color=colour, linewidth=1, label=f"published, scale {scale:g}")
        axes.plot(results["quotas", kind, SCALES[0]].ratios, color="#000000", linewidth=1.5, label="quotas, all scales")
        axes.axhspan(0.9, 1.1, color="#DDDDDD")
        axes.set(yscale="log", title=kind, xlabel="step", ylabel="density / requested density")
    axes.legend(frameon=False, fontsize=7)
