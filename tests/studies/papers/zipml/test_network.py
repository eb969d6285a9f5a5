"""The verdict on five levels, and the error without torch."""

import sys

import numpy as np
import pytest

from bitlane.errors import BitlaneError
from bitlane_studies.papers.claim import ClaimVerdict
from bitlane_studies.papers.zipml.network import POINTS, NetworkResult, judge, torch_or_error


def trainings(loss, accuracy):
    """Return two trainings with this mean final loss and mean accuracy."""
    return [NetworkResult(np.array([2.0, loss + away]), accuracy + away) for away in (-0.001, 0.001)]


@pytest.mark.parametrize(
    ("loss", "accuracy", "verdict"),
    [
        (1.0, 0.40 + (POINTS + 0.1) / 100, ClaimVerdict.HELD),
        (1.0, 0.40 + (POINTS - 0.1) / 100, ClaimVerdict.PARTLY),
        (1.0, 0.399, ClaimVerdict.FAILED),
        (1.6, 0.6, ClaimVerdict.FAILED),
    ],
)
def test_verdicts(loss, accuracy, verdict):
    found = {"full": trainings(0.9, 0.6), "uniform": trainings(1.5, 0.4), "optimal": trainings(loss, accuracy)}
    claim = judge(found, 300)
    assert claim.verdict is verdict
    assert f"{100 * (accuracy - 0.4):+.1f} points" in claim.reason
    assert f"| five optimal (Optimal5) | {loss:.4g} ± 0.001 |" in claim.measured


def test_a_missing_torch_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BitlaneError, match=r"training a network needs torch: pip install 'bitlane\[torch\]'"):
        torch_or_error()
