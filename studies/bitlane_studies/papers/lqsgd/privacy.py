"""Whether compression hides images from gradient inversion (LQ-SGD, section V.C, figure 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..claim import Claim, ClaimVerdict, Log, markdown_table, spread
from .inversion import CODECS, SETS, AttackResult, InversionCase, attack_all_codecs, attack_repeated_payloads
from .sizes import LQSGDSize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIMED = ("TopK, 1 %", "PowerSGD, rank 1", "LQ-SGD, rank 1")  # the paper's codecs that send the fewest bytes
MARGIN = 0.05  # a codec protects if its SSIM is lower by this than without a codec
REPEATED = ("EFSign", "TopK, 1 %", "MiCRO, 1 %", "PowerSGD, rank 1", "LQ-SGD, rank 1")
STEPS = 8
ATTACKERS = ("codec-agnostic", "codec-aware")
SHOWN = ("none", "QSGD, 2 bits", "EFSign", "TopK, 1 %", "PowerSGD, rank 1", "LQ-SGD, rank 1", "LQ-SGD, rank 4")
RepeatedAttacks = Mapping[str, Sequence[AttackResult]]  # by set: a result for each codec of REPEATED


def measure(size: LQSGDSize, log: Log) -> Claim:
    """Attack every codec on both sets, with a fresh and a trained network; then attack repeated gradients."""
    cases = [attack_all_codecs(name, trained, size, log) for name in SETS for trained in (0, size.victim_steps)]
    repeated = {}
    for each in cases[::2]:
        log(f"inversion: {each.name}, the same gradient {STEPS} times")
        repeated[each.name] = [attack_repeated_payloads(each.target, CODECS[name], STEPS, size) for name in REPEATED]
    return judge(cases, repeated)


def judge(cases: Sequence[InversionCase], repeated: RepeatedAttacks) -> Claim:
    """Return the verdict on the attacks."""
    exposed = sorted({name for each in cases for name in CLAIMED if not _protects(each, name, each.codec_aware)})
    hidden = all(_protects(each, name, each.codec_agnostic) for each in cases for name in CLAIMED)
    verdict = ClaimVerdict.HELD if hidden and not exposed else ClaimVerdict.PARTLY if hidden else ClaimVerdict.FAILED
    rank = cases[0], "LQ-SGD, rank 1"
    reason = (
        f"{'Every' if hidden else 'Not every'} codec of the paper lowers the SSIM of the codec-agnostic attacker by "
        f"{MARGIN:g} or more. Codecs with a smaller reduction for the codec-aware attacker, on at least one set and "
        f"network: {'; '.join(exposed) if exposed else 'none'}. LQ-SGD of rank 1 on {rank[0].name}: codec-agnostic "
        f"{_mean(rank[0].codec_agnostic[rank[1]]):.2f}, codec-aware {_mean(rank[0].codec_aware[rank[1]]):.2f}, without "
        f"compression {_mean(rank[0].codec_agnostic['none']):.2f}."
    )
    return Claim(
        name="privacy",
        title="Compression against gradient inversion",
        paper='Section V.C: "compression-based methods, including LQ-SGD, consistently yield lower SSIM scores '
        'compared to original SGD, indicating enhanced resistance to gradient inversion attacks". TopK has the lowest '
        "SSIM at high compression. Figure 5 has no numbers.",
        measured=_measured(cases, repeated),
        verdict=verdict,
        reason=reason,
        differs=(
            "The paper attacks ResNet-18. We attack a network of three convolutions with tanh, with one image per "
            "gradient and known labels. This is the easiest case for an attacker, so protection comes from the codec.",
            "The paper's attacker is codec-agnostic.",
            "An attacker with more steps, restarts or images for tuning can find more. The results show what is "
            "exposed, not what is safe.",
            "SSIM is computed by scikit-image: windows of 7 x 7, data_range from the smallest to the largest pixel, "
            "channel_axis=0. Pixels are not rounded to 8 bits.",
        ),
        plot=lambda figure: _plot(figure, cases),
    )


def _mean(attempt: AttackResult) -> float:
    return float(attempt.scores.mean())


def _protects(case: InversionCase, name: str, attempts: Mapping[str, AttackResult]) -> bool:
    return _mean(attempts[name]) <= _mean(case.codec_agnostic["none"]) - MARGIN


def _measured(cases: Sequence[InversionCase], repeated: RepeatedAttacks) -> str:
    count, steps = len(cases[0].target.images), cases[1].trained
    texts = [
        f"SSIM of {count} images and their reconstructions from the first payload of a rank, mean and standard "
        "deviation over images; 1 is a perfect reconstruction. The codec-agnostic attacker takes the decoded payload "
        "for the gradient (eq. 4), with the smoothness that is best without compression. The codec-aware attacker "
        "compares the gradient of a candidate image with the nearest gradient that has the same payload, and knows the "
        "seed of stochastic rounding. It tunes smoothness, and whether to use the codec, on separate images. Fresh: "
        f"initial weights. Trained: after {steps} steps. Bytes: sent by one of two ranks in a step."
    ]
    for first, later in zip(cases[::2], cases[1::2], strict=True):
        headings = [first.name, "bytes", *(f"{when}: {who}" for when in ("fresh", "trained") for who in ATTACKERS)]
        rows = [
            [name, f"{first.sent[name]:,}"]
            + [
                spread(each[name].scores.tolist(), 2)
                for case in (first, later)
                for each in (case.codec_agnostic, case.codec_aware)
            ]
            for name in CODECS
        ]
        texts.append(markdown_table(headings, rows))
    texts.append(
        "Error feedback sends residuals in later steps. The next table has the SSIM of the codec-agnostic attack on "
        f"the mean of {STEPS} payloads of the same gradient, with fresh weights; the tables above have the attack on "
        "one payload:"
    )
    rows = [
        [name, *(spread(attempts[k].scores.tolist(), 2) for attempts in repeated.values())]
        for k, name in enumerate(REPEATED)
    ]
    texts.append(markdown_table(["", *repeated], rows))
    return "\n\n".join(texts)


def _plot(figure: Figure, cases: Sequence[InversionCase]) -> None:
    """Plot an image of each set and its reconstructions with fresh weights, one row for each attacker."""
    fresh = cases[::2]
    figure.set_size_inches(1.1 * (1 + len(SHOWN)), 2.5 * len(fresh))
    grid = figure.subplots(2 * len(fresh), 1 + len(SHOWN), squeeze=False)
    for number, each in enumerate(fresh):
        for line, (who, attempts) in enumerate(zip(ATTACKERS, (each.codec_agnostic, each.codec_aware), strict=True)):
            shown = [("the image", each.target.images[0])]
            shown += [
                (f"{name}\n{who} {attempts[name].scores[0]:.2f}", attempts[name].reconstructions[0]) for name in SHOWN
            ]
            for axes, (title, image) in zip(grid[2 * number + line], shown, strict=True):
                pixels = (image - each.target.pixels.least) / (each.target.pixels.most - each.target.pixels.least)
                axes.imshow(pixels.permute(1, 2, 0).numpy().clip(0, 1), cmap="gray", vmin=0, vmax=1)
                axes.set_title(title, fontsize=7)
                axes.set_axis_off()
