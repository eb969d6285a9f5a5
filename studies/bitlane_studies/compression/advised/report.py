"""The tables: each candidate of a setting, and for each setting what was advised beside what is fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bitlane.compress.advice.advise import MOST_INCREASE, Advice
from bitlane.compress.advice.candidates import PLAIN
from bitlane.support.text import align_columns

from .settings import AdvisedSetting
from .trial import AdvisedTrial

NEAR = 1.05  # the goal: the advised way takes at most so many times as long as the fastest one that keeps the loss


@dataclass(frozen=True)
class CandidateResult:
    """A candidate in a setting: predicted and measured.

    Attributes
    ----------
    name : str
    predicted_seconds, seconds : float
        Of a step.
    predicted_bytes, bytes : float
        At the socket of the rank that sends most, in a step.
    predicted_increase : float or None
        Of the loss, in the trial; None without one.
    increase : float
        Of the final held-out loss over that of `plain`.
    """

    name: str
    predicted_seconds: float
    seconds: float
    predicted_bytes: float
    bytes: float
    predicted_increase: float | None
    increase: float

    @property
    def keeps_loss(self) -> bool:
        """Whether the final loss is at most 1 % above that of `plain`."""
        return self.increase <= MOST_INCREASE


@dataclass(frozen=True)
class SettingResult:
    """The candidates of a setting, and the name of the advised one."""

    setting: AdvisedSetting
    candidates: Sequence[CandidateResult]
    advised: str

    def __getitem__(self, name: str) -> CandidateResult:
        return next(each for each in self.candidates if each.name == name)

    @property
    def fastest(self) -> CandidateResult:
        """The candidate with the shortest steps of those that keep the loss."""
        return min((each for each in self.candidates if each.keeps_loss), key=lambda each: each.seconds)

    @property
    def ratio(self) -> float:
        """Time of the advised candidate over that of the fastest one."""
        return self[self.advised].seconds / self.fastest.seconds

    @property
    def is_met(self) -> bool:
        """Whether the advised candidate keeps the loss, and is within `NEAR` of the fastest."""
        return self[self.advised].keeps_loss and self.ratio <= NEAR


def setting_result(
    setting: AdvisedSetting, advice: Advice, by_rank: Sequence[Mapping[str, AdvisedTrial]]
) -> SettingResult:
    """Join an advice with the trainings of all ranks."""
    plain = float(np.mean([trials[PLAIN].loss for trials in by_rank]))
    candidates = []
    for name in by_rank[0]:
        trials, predicted = [each[name] for each in by_rank], advice[name]
        candidates.append(
            CandidateResult(
                name,
                advice.step_seconds(name),
                max(each.step_seconds for each in trials),
                predicted.sent,
                max(each.step_bytes for each in trials),
                None if predicted.effect is None else predicted.effect.increase,
                float(np.mean([each.loss for each in trials])) / plain - 1,
            )
        )
    return SettingResult(setting, candidates, advice.chosen)


def candidate_table(result: SettingResult) -> str:
    """Return the table of a setting; the advised candidate has a star, the fastest that keeps the loss a plus."""
    rows = [["candidate", "ms a step", "predicted", "KB a step", "predicted", "loss", "in the trial"]]
    for each in result.candidates:
        trial = "" if each.predicted_increase is None else f"{each.predicted_increase:+.2%}"
        marks = "*" * (each.name == result.advised) + "+" * (each.name == result.fastest.name)
        times = [f"{1e3 * each.seconds:.2f}", f"{1e3 * each.predicted_seconds:.2f}"]
        sizes = [f"{each.bytes / 1e3:.1f}", f"{each.predicted_bytes / 1e3:.1f}"]
        rows.append([f"{each.name} {marks}".strip(), *times, *sizes, f"{each.increase:+.2%}", trial])
    return align_columns(rows, left=1)


def summary_table(results: Sequence[SettingResult]) -> str:
    """Return a row for each setting."""
    rows = [["task", "link", "advised", "loss", "fastest at most 1 % above", "loss", "time of advised", "goal"]]
    for each in results:
        losses = [f"{own.increase:+.2%}" for own in (each[each.advised], each.fastest)]
        own = [each.setting.task, each.setting.link, each.advised, losses[0], each.fastest.name, losses[1]]
        rows.append([*own, f"{each.ratio:.3f}", "met" if each.is_met else "missed"])
    return align_columns(rows, left=3)
