"""Time to a loss: times, the best other policy and the verdict; the verdict on the cost of the controller."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.compress.training.experiment import TrainingHistory
from bitlane_studies.papers.claim import ClaimVerdict
from bitlane_studies.papers.mqgrad import controller
from bitlane_studies.papers.mqgrad.pace import StepTimes
from bitlane_studies.papers.mqgrad.race import WINDOW, LinkRace, judge, seconds_to
from bitlane_studies.papers.mqgrad.sizes import QUICK

pytestmark = pytest.mark.torch

PACE = StepTimes("100mbit", 0.5, {2: 0.25, 4: 0.5, 8: 1.0}, {2: 0.25, 4: 1.0, 8: 2.5})


def history(bits, falls_at, steps=60):
    """Return a training with losses of 2 before step `falls_at` and 1 from it on."""
    losses = np.where(np.arange(steps) < falls_at, 2.0, 1.0)
    return TrainingHistory(losses, 0.5, 1, 0.1, np.full(steps, bits))


def race(mqgrad):
    """Return a race of one seed on one link, with this history for MQGrad."""
    rivals = [history(2, 40), history(4, 20), history(8, 10), history(8, 10)]
    return LinkRace(PACE, ["2 bits", "4 bits", "8 bits", "Adaptive", "MQGrad"], [[each] for each in (*rivals, mqgrad)])


def test_time_includes_all_steps_up_to_the_end_of_the_window():
    assert seconds_to(1.001, history(4, 20), PACE) == pytest.approx((20 + WINDOW) * 2.0)
    assert seconds_to(2.001, history(2, 20), PACE) == pytest.approx(WINDOW * 1.0)
    assert seconds_to(0.9, history(2, 20), PACE) == np.inf


def test_the_best_rival_and_the_verdict():
    assert race(history(2, 40)).best() == 0  # 59 s: 4 bits 78, 8 bits 116
    quick, slow = race(history(2, 30)), race(history(4, 35))
    assert quick.ratio < 1 < slow.ratio
    assert judge([quick, quick], QUICK).verdict is ClaimVerdict.HELD
    assert judge([quick, slow], QUICK).verdict is ClaimVerdict.PARTLY
    found = judge([slow, slow], QUICK)
    assert found.verdict is ClaimVerdict.FAILED
    assert "2 bits" in found.reason


def test_an_unreached_target_is_reported():
    found = judge([race(history(2, 60))], QUICK)
    assert found.verdict is ClaimVerdict.FAILED
    assert "not reached by 1 of 1" in found.measured


def test_the_controller_is_compared_with_the_shortest_step():
    other = StepTimes("1gbit", 0.0, {2: 0.01}, {2: 0.0})
    assert controller.judge(1e-5, [PACE, other]).verdict is ClaimVerdict.HELD
    assert controller.judge(1e-4, [PACE, other]).verdict is ClaimVerdict.PARTLY
    assert controller.judge(1e-2, [PACE, other]).verdict is ClaimVerdict.FAILED
