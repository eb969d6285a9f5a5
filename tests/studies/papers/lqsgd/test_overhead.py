"""The computing time of quantization: every rank of the factors is timed, and the verdict follows the limit."""

from dataclasses import replace

import pytest
import torch

from bitlane_studies.papers.claim import ClaimVerdict
from bitlane_studies.papers.lqsgd import overhead
from bitlane_studies.papers.lqsgd.sizes import QUICK

pytestmark = pytest.mark.torch


def judged(*lq):
    """Return the claim for LQ-SGD's milliseconds at each rank; PowerSGD takes 10."""
    names = overhead.NAMES
    found = {
        rank: dict(zip(names, (0.01, each / 1e3), strict=True)) for rank, each in zip(overhead.RANKS, lq, strict=True)
    }
    return overhead.judge(found, 64)


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ((10, 11, 12, 12.5), ClaimVerdict.HELD),
        ((10, 11, 12, 13), ClaimVerdict.PARTLY),
        ((13, 13, 13, 13), ClaimVerdict.FAILED),
    ],
)
def test_the_verdict_follows_the_limit(times, verdict):
    assert judged(*times).verdict is verdict


def test_the_reason_has_the_figures():
    claim = judged(10, 11, 12, 13)
    assert "takes 1.00 to 1.30 times as long as PowerSGD." in claim.reason
    assert "| 2 | 10.0 | 11.0 | 1.10 |" in claim.measured


def test_every_rank_is_timed_with_one_thread(monkeypatch):
    threads, seen = torch.get_num_threads(), []
    steps = overhead.step_seconds

    def watched(rows, columns, rank, count):
        seen.append((rows, columns, rank, count, torch.get_num_threads()))
        return steps(rows, columns, rank, count)

    monkeypatch.setattr(overhead, "step_seconds", watched)
    try:
        torch.set_num_threads(2)
        overhead.measure(replace(QUICK, side=48, steps=3), lambda _: None)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert seen == [(48, 48, rank, 3, 1) for rank in overhead.RANKS]
