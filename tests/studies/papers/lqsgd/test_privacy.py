"""The verdict on privacy: the margin applies on every set and network, to both attackers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bitlane_studies.papers.claim import ClaimVerdict
from bitlane_studies.papers.lqsgd import privacy
from bitlane_studies.papers.lqsgd.inversion import CODECS, AttackResult, InversionCase
from bitlane_studies.privacy.attack import PixelFormat

pytestmark = pytest.mark.torch


def attempt(score):
    return AttackResult(np.array([score - 0.01, score + 0.01]), torch.zeros(2, 1, 8, 8))


def case(name="MNIST", trained=0, agnostic=0.3, aware=0.3, **others):
    """Return a case with a score of 0.9 without a codec; `others` are scores of the codec-aware attacker by codec."""
    target = SimpleNamespace(images=torch.zeros(2, 1, 8, 8), pixels=PixelFormat(1, 8, 0.0, 1.0))
    named = {"topk": "TopK, 1 %", "powersgd": "PowerSGD, rank 1", "lqsgd": "LQ-SGD, rank 1"}
    found = {label: attempt(aware) for label in CODECS} | {"none": attempt(0.9)}
    found |= {named[key]: attempt(score) for key, score in others.items()}
    seen = {label: attempt(agnostic) for label in CODECS} | {"none": attempt(0.9)}
    return InversionCase(name, trained, target, dict.fromkeys(CODECS, 1234), seen, found)


REPEATED = {"MNIST": [attempt(0.5) for _ in privacy.REPEATED]}


@pytest.mark.parametrize(
    ("changed", "verdict", "exposed"),
    [
        ({}, ClaimVerdict.HELD, "one set and network: none."),
        ({"lqsgd": 0.88}, ClaimVerdict.PARTLY, "one set and network: LQ-SGD, rank 1."),
        ({"powersgd": 0.95, "topk": 0.86}, ClaimVerdict.PARTLY, "one set and network: PowerSGD, rank 1; TopK, 1 %."),
        ({"topk": 0.84}, ClaimVerdict.HELD, "one set and network: none."),
        ({"agnostic": 0.89}, ClaimVerdict.FAILED, "Not every codec"),
    ],
)
def test_the_verdict_follows_the_margin(changed, verdict, exposed):
    claim = privacy.judge([case(**changed), case(trained=9)], REPEATED)
    assert claim.verdict is verdict
    assert exposed in claim.reason


def test_one_network_is_enough_to_fail():
    claim = privacy.judge([case(), case(trained=9, lqsgd=0.9)], REPEATED)
    assert claim.verdict is ClaimVerdict.PARTLY


def test_all_figures_are_in_the_tables():
    claim = privacy.judge([case(agnostic=0.25), case(trained=9, aware=0.35)], REPEATED)
    row = "| EFSign | 1,234 | 0.25 ± 0.01 | 0.3 ± 0.01 | 0.3 ± 0.01 | 0.35 ± 0.01 |"
    assert row in claim.measured and claim.measured.count("\n| none |") == 1
    assert "| LQ-SGD, rank 1 | 0.5 ± 0.01 |" in claim.measured and "after 9 steps" in claim.measured
    assert "codec-agnostic 0.25, codec-aware 0.30, without compression 0.90" in claim.reason


def test_images_and_reconstructions_are_plotted():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    privacy.judge([case(), case(trained=9), case("CIFAR-10"), case("CIFAR-10", 9)], REPEATED).plot(figure)
    assert len(figure.axes) == 4 * (1 + len(privacy.SHOWN))
    assert figure.axes[1].get_title() == "none\ncodec-agnostic 0.89"
