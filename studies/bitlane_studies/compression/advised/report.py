"""The tables: each candidate of a setting, and for each setting what was advised beside what is fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bitlane.compress.advice.advise import MOST_INCREASE, Advice
from bitlane.compress.advice.candidates import PLAIN
from bitlane.support.text import align_columns

from .settings import AdvisedSetting
from .trial import AUTO, AdvisedTrial

NEAR = 1.05  # the goal: the advised way takes at most so many times as long as the fastest one that keeps the loss


@dataclass(frozen=True)
class CandidateResult:
    """A candidate in a setting: measured and predicted.

    Attributes
    ----------
    name : str
    seconds : float
        Of a step.
    bytes : float
        At the socket of the rank that sends most, in a step.
    increase : float
        Of the final held-out loss over that of `plain`.
    predicted_seconds, predicted_bytes : float or None
        None for `AUTO`, which advice does not know.
    predicted_increase : float or None
        Of the loss, in the trial; None without one.
    """

    name: str
    seconds: float
    bytes: float
    increase: float
    predicted_seconds: float | None = None
    predicted_bytes: float | None = None
    predicted_increase: float | None = None

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
        """The candidate with the shortest steps of those that keep the loss and that advice knows."""
        known = (each for each in self.candidates if each.keeps_loss and each.predicted_seconds is not None)
        return min(known, key=lambda each: each.seconds)

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
        trials = [each[name] for each in by_rank]
        seconds, sent = max(each.step_seconds for each in trials), max(each.step_bytes for each in trials)
        measured = CandidateResult(name, seconds, sent, float(np.mean([each.loss for each in trials])) / plain - 1)
        candidates.append(measured if name == AUTO else _with_prediction(measured, advice))
    return SettingResult(setting, candidates, advice.chosen)


def _with_prediction(measured: CandidateResult, advice: Advice) -> CandidateResult:
    predicted = advice[measured.name]
    return replace(
        measured,
        predicted_seconds=advice.step_seconds(measured.name),
        predicted_bytes=predicted.sent,
        predicted_increase=None if predicted.effect is None else predicted.effect.increase,
    )


def with_mean_losses(results: Sequence[SettingResult]) -> list[SettingResult]:
    """Return the results of settings of one task, each candidate with the mean of its losses in all of them.

    Losses do not depend on the link, and the settings have different seeds.
    """

    def mean(name: str) -> float:
        return float(np.mean([each[name].increase for each in results]))

    return [
        replace(each, candidates=[replace(own, increase=mean(own.name)) for own in each.candidates]) for each in results
    ]


def candidate_table(result: SettingResult) -> str:
    """Return the table of a setting; the advised candidate has a star, the fastest that keeps the loss a plus."""
    rows = [["candidate", "ms a step", "predicted", "KB a step", "predicted", "loss", "in the trial"]]
    for each in result.candidates:
        marks = "*" * (each.name == result.advised) + "+" * (each.name == result.fastest.name)
        times = [_number(each.seconds, 1e3, ".2f"), _number(each.predicted_seconds, 1e3, ".2f")]
        sizes = [_number(each.bytes, 1e-3, ".1f"), _number(each.predicted_bytes, 1e-3, ".1f")]
        losses = [f"{each.increase:+.2%}", _number(each.predicted_increase, 1, "+.2%")]
        rows.append([f"{each.name} {marks}".strip(), *times, *sizes, *losses])
    return align_columns(rows, left=1)


def _number(value: float | None, factor: float, form: str) -> str:
    return "" if value is None else format(factor * value, form)


def summary_table(results: Sequence[SettingResult]) -> str:
    """Return a row for each setting."""
    rows = [["task", "link", "advised", "loss", "fastest at most 1 % above", "loss", "time of advised", "goal"]]
    for each in results:
        losses = [f"{own.increase:+.2%}" for own in (each[each.advised], each.fastest)]
        own = [each.setting.task, each.setting.link, each.advised, losses[0], each.fastest.name, losses[1]]
        rows.append([*own, f"{each.ratio:.3f}", "met" if each.is_met else "missed"])
    return align_columns(rows, left=3)
