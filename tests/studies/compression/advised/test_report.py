"""The tables of advised settings, by hand: who is fastest of those that keep the loss, and whether the goal is met."""

from __future__ import annotations

import pytest

from bitlane_studies.compression.advised.report import (
    CandidateResult,
    SettingResult,
    candidate_table,
    setting_result,
    summary_table,
    with_mean_losses,
)
from bitlane_studies.compression.advised.settings import AdvisedSetting
from bitlane_studies.compression.advised.trial import AdvisedTrial

pytestmark = pytest.mark.torch

SETTING = AdvisedSetting("lstm", "1gbit")


def candidate(name: str, seconds: float, increase: float) -> CandidateResult:
    return CandidateResult(name, seconds, 1100.0, increase, 0.9 * seconds, 1000.0)


@pytest.mark.parametrize(
    ("advised", "ratio", "is_met"),
    [("plain", 2.0, False), ("close", 1.05, True), ("kept", 1.0, True), ("lossy", 0.5, False)],
)
def test_the_fastest_of_those_that_keep_the_loss(advised, ratio, is_met):
    candidates = [
        candidate("plain", 0.2, 0.0),
        candidate("close", 0.105, -0.02),
        candidate("kept", 0.1, 0.01),
        candidate("lossy", 0.05, 0.0101),
        CandidateResult("auto", 0.01, 100.0, 0.0),
    ]
    result = SettingResult(SETTING, candidates, advised)
    assert result.fastest.name == "kept"
    assert result.ratio == pytest.approx(ratio)
    assert result.is_met is is_met
    lines = candidate_table(result).splitlines()
    assert [line.split()[1] for line in lines[2:] if "*" in line.split()[1]] == ["*+" if advised == "kept" else "*"]
    assert summary_table([result]).splitlines()[-1].split()[-1] == ("met" if is_met else "missed")


def test_the_losses_of_a_task_are_means_over_its_links():
    results = [
        SettingResult(SETTING, [candidate("plain", 0.2, 0.0), candidate("few", seconds, increase)], "few")
        for seconds, increase in ((0.1, 0.03), (0.3, -0.02))
    ]
    means = with_mean_losses(results)
    assert [each["few"].increase for each in means] == pytest.approx([0.005, 0.005])
    assert [each["few"].seconds for each in means] == [0.1, 0.3] and [each.advised for each in means] == ["few"] * 2
    assert [each.fastest.name for each in means] == ["few", "plain"]


def test_trials_and_advice_are_joined():
    class Effect:
        increase = 0.25

    class Prediction:
        sent, effect = 7.0, Effect()

    class Advised:
        chosen = "bf16"

        def step_seconds(self, name: str) -> float:
            return {"plain": 3.0, "bf16": 2.0}[name]

        def __getitem__(self, name: str) -> Prediction:
            return Prediction()

    by_rank = [
        {
            "plain": AdvisedTrial(1.0, 4.0, 10.0),
            "bf16": AdvisedTrial(2.0, 2.5, 5.0),
            "auto": AdvisedTrial(2.0, 1.0, 2.0),
        },
        {
            "plain": AdvisedTrial(3.0, 3.5, 11.0),
            "bf16": AdvisedTrial(2.4, 2.0, 6.0),
            "auto": AdvisedTrial(2.0, 1.0, 2.0),
        },
    ]
    result = setting_result(SETTING, Advised(), by_rank)  # type: ignore[arg-type]
    assert result["plain"] == CandidateResult("plain", 4.0, 11.0, 0.0, 3.0, 7.0, 0.25)
    assert result["auto"] == CandidateResult("auto", 1.0, 2.0, 0.0)
    bfloat16 = result["bf16"]
    assert (bfloat16.seconds, bfloat16.bytes) == (2.5, 6.0) and bfloat16.increase == pytest.approx(0.1)
    assert result.fastest.name == "plain" and result.ratio == 0.625 and not result.is_met
