"""Advice as text."""

from __future__ import annotations

from bitlane.support.text import fill_lines, stacked_columns

from .advise import MOST_INCREASE, NEAR_FASTEST, Advice, CandidatePrediction
from .candidates import BFLOAT16, HARMLESS, PLAIN
from .trial import COUNTED, LossEffect

HEADINGS = (
    *("candidate", "MB sent", "of bf16", "of float32", "coding ms", "sending ms", "step ms", "speed-up", "state MB"),
    *("peak MB", "loss", "cost", "share", "error/noise"),
)


def advice_text(advice: Advice) -> str:
    """Format the predictions as a table, followed by the recommendation and its reason."""
    link = f"{advice.model.bandwidth * 8e-6:,.0f} Mb/s, latency {advice.model.latency * 1e6:,.0f} microseconds"
    compute = "computing time unknown"
    if advice.compute.total:
        compute = f"{advice.compute.forward * 1e3:.2f} + {advice.compute.backward * 1e3:.2f} ms forward and backward"
    order = _order(advice)
    columns = len(HEADINGS) if advice.measured else HEADINGS.index("loss")
    cells = [list(HEADINGS[:columns]), *([*_numbers(advice, each), *_losses(each.effect)][:columns] for each in order)]
    return "\n".join(
        [
            f"{advice.ranks} ranks, {link}; {compute}",
            fill_lines(*_notes(advice)),
            "",
            stacked_columns(cells, left=1),
            "",
            fill_lines(_recommendation(advice), *_faster(advice)),
        ]
    )


def _order(advice: Advice) -> list[CandidatePrediction]:
    """Return the predictions, first those that no other beats in time and loss, both parts by time.

    Without losses, those that studies found harmless are first.
    """
    first = advice.frontier if advice.measured else HARMLESS

    def key(each: CandidatePrediction) -> tuple[bool, float]:
        return each.candidate.name not in first, advice.step_seconds(each.candidate.name)

    return sorted(advice.predictions, key=key)


def _numbers(advice: Advice, prediction: CandidatePrediction) -> list[str]:
    name, costs, every = prediction.candidate.name, prediction.costs, prediction.candidate.every or 1
    step, baseline = advice.step_seconds(name), advice[BFLOAT16]
    mark = " *" if name in advice.frontier else ""
    return [
        f"{name}{mark}",
        f"{prediction.sent / 1e6:.3f}",
        f"{prediction.sent / baseline.sent:.4f}",
        f"{prediction.sent / advice[PLAIN].sent:.4f}",
        f"{costs.codec / every * 1e3:.2f}",
        f"{costs.link_seconds(advice.model) / every * 1e3:.2f}",
        f"{step * 1e3:.2f}",
        f"{advice.step_seconds(BFLOAT16) / step:.2f}",
        f"{costs.state_bytes / 1e6:.1f}",
        "" if prediction.peak is None else f"{prediction.peak / 1e6:.1f}",
    ]


def _losses(effect: LossEffect | None) -> list[str]:
    if effect is None:
        return ["", "", "", ""]
    ratio = "" if effect.noise_ratio is None else f"{effect.noise_ratio:.3g}"
    loss = f"{100 * effect.increase:+.2f} +- {100 * effect.standard_error:.2f} %"
    return [loss, f"{1e3 * effect.cost:.3f}", f"{effect.share:.3f}", ratio]


def _notes(advice: Advice) -> list[str]:
    notes = [
        "MB sent, times: of a step and rank; a round of DiLoCo is spread over its steps. speed-up: over bf16. step: "
        "predicted, with a core that codes while others compute. state, peak: memory beside that of DDP."
    ]
    if advice.measured:
        notes.append(
            f"loss: its change after {COUNTED} steps, measured. cost: of a step, in 0.001 nats; share: of what a step "
            "gains. error/noise: squared error of the average over its noise. *: no other is better in time and loss."
        )
    else:
        first = ", ".join(each.candidate.name for each in _order(advice) if each.candidate.name in HARMLESS)
        notes.append(
            f"Accuracy is not known: it needs a training with batches (MeasuredTraining). In studies {first} kept the "
            "loss; the others cost accuracy somewhere, or are not studied."
        )
    if not advice.compute.total:
        notes.append("Computing time is not known: it counts as 0, so speed-ups are those of coding and sending alone.")
    return notes


def _faster(advice: Advice) -> list[str]:
    step = advice.step_seconds(advice.chosen)
    texts = [f"{name} ({step / advice.step_seconds(name):.1f} times faster)" for name in advice.faster]
    if not texts:
        return []
    return [
        f"Also within {MOST_INCREASE:.0%} of the loss so far: {', '.join(texts)}. They send a part of the gradients "
        "later, which may cost more as the training goes on: compare losses before you use one."
    ]


def _recommendation(advice: Advice) -> str:
    chosen, plain = advice.chosen, advice.step_seconds(PLAIN)
    waiting = f"waiting for float32 is {1 - advice.compute.total / plain if plain else 0:.0%} of a step"
    if chosen == PLAIN:
        if plain <= NEAR_FASTEST * advice.compute.total:
            return f"Use plain DDP: the link is no bottleneck; {waiting}."
        return f"Use plain DDP: {waiting}, but nothing that keeps the loss makes it {NEAR_FASTEST - 1:.0%} faster."
    speed = f"{plain / advice.step_seconds(chosen):.2f} times faster than float32 and "
    speed += f"{advice.step_seconds(BFLOAT16) / advice.step_seconds(chosen):.2f} times than bf16"
    if advice.measured:
        why = f"Of the candidates within {MOST_INCREASE:.0%} of the loss and {NEAR_FASTEST - 1:.0%} of the shortest "
        return f"Use {chosen}: {waiting}; a step is {speed}. {why}step it changes the training least."
    where = f" It kept the loss in {HARMLESS[chosen]}." if HARMLESS[chosen] else ""
    return f"Use {chosen}: {waiting}; a step is {speed}.{where}"
