"""Whether compression hides images from gradient inversion (LQ-SGD, section V.C, figure 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..claim import Claim, Log, Verdict, markdown_table, spread
from .inversion import CODECS, SETS, AttackResult, InversionCase, attack_all_codecs, repeated
from .sizes import LQSGDSize

CLAIMED = ("TopK, 1 %", "PowerSGD, rank 1", "LQ-SGD, rank 1")  # of the paper's codecs those that send least
MARGIN = 0.05  # of SSIM, by which a codec has to be below no codec to protect
AGAIN = ("EFSign", "TopK, 1 %", "MiCRO, 1 %", "PowerSGD, rank 1", "LQ-SGD, rank 1")
STEPS = 8
DRAWN = ("none", "QSGD, 2 bits", "EFSign", "TopK, 1 %", "PowerSGD, rank 1", "LQ-SGD, rank 1", "LQ-SGD, rank 4")
Again = Mapping[str, Sequence[AttackResult]]  # of each set: each of AGAIN


def measure(size: LQSGDSize, say: Log) -> Claim:
    """Every codec on both sets, before training and after a little of it; then gradients that come again."""
    cases = [attack_all_codecs(name, trained, size, say) for name in SETS for trained in (0, size.victim_steps)]
    again = {}
    for each in cases[::2]:
        say(f"inversion: {each.name}, the same gradient {STEPS} times")
        again[each.name] = [repeated(each.target, CODECS[name], STEPS, size) for name in AGAIN]
    return judge(cases, again)


def judge(cases: Sequence[InversionCase], again: Again) -> Claim:
    """What the attempts say."""
    exposed = sorted({name for each in cases for name in CLAIMED if not _protects(each, name, each.knowing)})
    hidden = all(_protects(each, name, each.naive) for each in cases for name in CLAIMED)
    verdict = Verdict.HELD if hidden and not exposed else Verdict.PARTLY if hidden else Verdict.FAILED
    rank = cases[0], "LQ-SGD, rank 1"
    reason = (
        f"{'Every' if hidden else 'Not every'} codec of the paper lowers the SSIM of the naive attacker by {MARGIN:g} "
        f"or more; against one who knows the codec {', '.join(exposed) if exposed else 'none'} "
        f"{'do' if exposed else 'does'} not on every set and network. LQ-SGD of rank 1 on {rank[0].name}: naive "
        f"{_mean(rank[0].naive[rank[1]]):.2f}, knowing {_mean(rank[0].knowing[rank[1]]):.2f}, without compression "
        f"{_mean(rank[0].naive['none']):.2f}."
    )
    return Claim(
        name="privacy",
        title="Compression against gradient inversion",
        paper='Section V.C: "compression-based methods, including LQ-SGD, consistently yield lower SSIM scores '
        'compared to original SGD, indicating enhanced resistance to gradient inversion attacks"; TopK has the lowest '
        "at high compression. Figure 5 has no numbers.",
        measured=_measured(cases, again),
        verdict=verdict,
        reason=reason,
        differs=(
            "The paper attacks ResNet-18; here a network of three convolutions with tanh, one image a gradient and its "
            "label known: the easiest case for an attacker, so that what is hidden here is hidden by the codec.",
            "The paper's attacker takes what was sent for the gradient, and does not use what the codec tells of it.",
            "An attacker with more steps, starts or images to rehearse with finds more: what is found shows what is "
            "not hidden; what is not found may yet be.",
            "SSIM is that of scikit-image: windows of 7 x 7, data_range from the least to the largest pixel, "
            "channel_axis=0. No pixel is rounded to 8 bits.",
        ),
        draw=lambda figure: _draw(figure, cases),
    )


def _mean(attempt: AttackResult) -> float:
    return float(attempt.scores.mean())


def _protects(found: InversionCase, name: str, attempts: Mapping[str, AttackResult]) -> bool:
    return _mean(attempts[name]) <= _mean(found.naive["none"]) - MARGIN


def _measured(cases: Sequence[InversionCase], again: Again) -> str:
    count, steps = len(cases[0].target.images), cases[1].trained
    texts = [
        f"SSIM of {count} images and what an attacker made of the first payload of a rank that has this image, mean "
        "and standard deviation over images; 1 is the image itself. Naive: the decoded payload is taken for the "
        "gradient (eq. 4), smoothness as served best without compression. Knowing: a dummy's gradient is compared with "
        "the nearest one that has the same payload, seeds of random rounding included, where that served better on "
        "images of the attacker's own, with the smoothness that served best. Fresh: initial weights; trained: after "
        f"{steps} steps. Bytes: what one of two ranks sends in a step."
    ]
    for first, later in zip(cases[::2], cases[1::2], strict=True):
        heads = [first.name, "bytes", "fresh: naive", "knowing", "trained: naive", "knowing"]
        rows = [
            [name, f"{first.sent[name]:,}"]
            + [spread(each[name].scores.tolist(), 2) for part in (first, later) for each in (part.naive, part.knowing)]
            for name in CODECS
        ]
        texts.append(markdown_table(heads, rows))
    texts.append(
        f"Error feedback sends later what it keeps back. The naive attack on the mean of {STEPS} payloads of the same "
        "gradient, fresh weights, where the attack on the first alone is that of the tables above:"
    )
    rows = [
        [name, *(spread(attempts[k].scores.tolist(), 2) for attempts in again.values())] for k, name in enumerate(AGAIN)
    ]
    texts.append(markdown_table(["", *again], rows))
    return "\n\n".join(texts)


def _draw(figure: Any, cases: Sequence[InversionCase]) -> None:
    """An image of each set, and what was found of it before training: naive above, knowing below."""
    fresh = cases[::2]
    figure.set_size_inches(1.1 * (1 + len(DRAWN)), 2.5 * len(fresh))
    grid = figure.subplots(2 * len(fresh), 1 + len(DRAWN), squeeze=False)
    for number, each in enumerate(fresh):
        for line, (who, attempts) in enumerate((("naive", each.naive), ("knowing", each.knowing))):
            shown = [("the image", each.target.images[0])]
            shown += [(f"{name}\n{who} {attempts[name].scores[0]:.2f}", attempts[name].found[0]) for name in DRAWN]
            for axes, (title, image) in zip(grid[2 * number + line], shown, strict=True):
                pixels = (image - each.target.pixels.least) / (each.target.pixels.most - each.target.pixels.least)
                axes.imshow(pixels.permute(1, 2, 0).numpy().clip(0, 1), cmap="gray", vmin=0, vmax=1)
                axes.set_title(title, fontsize=7)
                axes.set_axis_off()
