"""The verdict on privacy: by the margin, on every set and network, against both attackers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bitlane.studies.papers.claim import Verdict
from bitlane.studies.papers.lqsgd import privacy
from bitlane.studies.papers.lqsgd.inversion import CODECS, AttackResult, InversionCase
from bitlane.studies.privacy.attack import PixelFormat

pytestmark = pytest.mark.torch


def attempt(score):
    return AttackResult(np.array([score - 0.01, score + 0.01]), torch.zeros(2, 1, 8, 8))


def case(name="MNIST", trained=0, naive=0.3, knowing=0.3, **others):
    """Without a codec 0.9; `others` are what the knowing attacker has of single codecs."""
    target = SimpleNamespace(images=torch.zeros(2, 1, 8, 8), pixels=PixelFormat(1, 8, 0.0, 1.0))
    named = {"topk": "TopK, 1 %", "powersgd": "PowerSGD, rank 1", "lqsgd": "LQ-SGD, rank 1"}
    found = {label: attempt(knowing) for label in CODECS} | {"none": attempt(0.9)}
    found |= {named[key]: attempt(score) for key, score in others.items()}
    seen = {label: attempt(naive) for label in CODECS} | {"none": attempt(0.9)}
    return InversionCase(name, trained, target, dict.fromkeys(CODECS, 1234), seen, found)


AGAIN = {"MNIST": [attempt(0.5) for _ in privacy.AGAIN]}


@pytest.mark.parametrize(
    ("changed", "verdict", "exposed"),
    [
        ({}, Verdict.HELD, "none does"),
        ({"lqsgd": 0.88}, Verdict.PARTLY, "LQ-SGD, rank 1 do not"),
        ({"powersgd": 0.95, "topk": 0.86}, Verdict.PARTLY, "PowerSGD, rank 1, TopK, 1 % do not"),
        ({"topk": 0.84}, Verdict.HELD, "none does"),
        ({"naive": 0.89}, Verdict.FAILED, "Not every codec"),
    ],
)
def test_the_verdict_is_that_of_the_margin(changed, verdict, exposed):
    claim = privacy.judge([case(**changed), case(trained=9)], AGAIN)
    assert claim.verdict is verdict
    assert exposed in claim.reason


def test_one_network_is_enough_to_fail():
    claim = privacy.judge([case(), case(trained=9, lqsgd=0.9)], AGAIN)
    assert claim.verdict is Verdict.PARTLY


def test_all_figures_are_in_the_tables():
    claim = privacy.judge([case(naive=0.25), case(trained=9, knowing=0.35)], AGAIN)
    row = "| EFSign | 1,234 | 0.25 ± 0.01 | 0.3 ± 0.01 | 0.3 ± 0.01 | 0.35 ± 0.01 |"
    assert row in claim.measured and claim.measured.count("\n| none |") == 1
    assert "| LQ-SGD, rank 1 | 0.5 ± 0.01 |" in claim.measured and "after 9 steps" in claim.measured
    assert "naive 0.25, knowing 0.30, without compression 0.90" in claim.reason


def test_original_and_found_are_drawn():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    privacy.judge([case(), case(trained=9), case("CIFAR-10"), case("CIFAR-10", 9)], AGAIN).draw(figure)
    assert len(figure.axes) == 4 * (1 + len(privacy.DRAWN))
    assert figure.axes[1].get_title() == "none\nnaive 0.89"
