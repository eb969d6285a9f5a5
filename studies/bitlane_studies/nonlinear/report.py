"""The table of a study, and the verdict on the paper's finding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bitlane.evaluation.metrics import LOSS_NAMES
from bitlane.evaluation.schedules import TrainingSchedule
from bitlane.support.text import align_columns

from .study import MethodResult
from .tasks import ClassificationTask

ALIKE = 0.001  # a smaller difference, relative to the loss at full precision, does not count
PLAIN = 8  # bits at which the paper found plain rounding to be sufficient


def table(task: ClassificationTask, schedule: TrainingSchedule, outcomes: Sequence[MethodResult]) -> str:
    """Return a table with one line per result, the first for full precision.

    Parameters
    ----------
    task : ClassificationTask
    schedule : TrainingSchedule
    outcomes : sequence of MethodResult
        Results of `study`.

    Returns
    -------
    str
    """
    full = outcomes[0]
    cells = [
        ["", "bits", "bytes/row", "final loss", "std", "over full", "held out", "refetched", "bias", "noise"],
        *(_cells(outcome, full, task.rows) for outcome in outcomes),
    ]
    return "\n".join(
        [
            f"{task.name}: {task.rows:,} rows, {task.features} features, {LOSS_NAMES[schedule.loss]}; "
            f"{schedule.epochs} epochs, batches of {schedule.batch_size}, learning rate {schedule.learning_rate:g}, "
            f"decay {schedule.decay:g}, {len(full.losses)} seeds",
            "",
            align_columns(cells),
        ]
    )


def _cells(outcome: MethodResult, full: MethodResult, rows: int) -> list[str]:
    diverged = not np.isfinite(outcome.loss)
    return [
        outcome.name,
        str(outcome.bits),
        f"{outcome.bytes / rows:.1f}",
        "diverged" if diverged else f"{outcome.loss:.5f}",
        "-" if diverged else f"{outcome.losses.std():.5f}",
        "-" if diverged else f"{outcome.loss / full.loss:.4f}",
        f"{outcome.accuracy:.2%}",
        f"{outcome.refetched:.2%}",
        f"{outcome.bias:.4f}",
        f"{outcome.noise:.3f}",
    ]


def verdict(outcomes: Sequence[MethodResult]) -> str:
    """State whether plain rounding matches the unbiased methods with no more bytes, as ZipML, section 6, finds.

    Parameters
    ----------
    outcomes : sequence of MethodResult
        Results of `study`.

    Returns
    -------
    str
        A line for each plain rounding at PLAIN bits, and the verdict.
    """
    full, *others = outcomes
    plain = [each for each in others if each.kind == "plain"]
    better = [each for each in others if each.kind == "unbiased" and all(_beats(each, rival, full) for rival in plain)]
    lines = [
        f"{each.name}, {PLAIN} bits: {each.loss / full.loss:.4f} times the loss of full precision"
        for each in plain
        if each.bits == PLAIN
    ]
    if better:
        named = ", ".join(f"{each.name} with {each.bits} bits" for each in better)
        lines.append(
            f"the paper's finding does not hold throughout: no plain rounding with as few bytes matches {named}"
        )
    else:
        lines.append("the paper's finding holds: plain rounding with no more bytes matches every unbiased method")
    return "\n".join(lines)


def _beats(careful: MethodResult, plain: MethodResult, full: MethodResult) -> bool:
    """Return whether the first needs fewer bytes than the second, or has a significantly lower final loss.

    A loss below that of full precision counts as equal to it: such a training has a better step size by chance. A
    difference is significant above two standard errors and above `ALIKE`.
    """
    if careful.bytes < plain.bytes:
        return True
    if not np.isfinite(careful.loss) or not np.isfinite(plain.loss):
        return bool(np.isfinite(careful.loss))
    lower = np.maximum(plain.losses, full.losses) - np.maximum(careful.losses, full.losses)
    chance = lower.std(ddof=1) / np.sqrt(len(lower)) if len(lower) > 1 else 0.0
    return bool(lower.mean() > max(2 * chance, ALIKE * full.loss))
