"""Accuracy, bytes and computing time: the measurement and the verdict."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bitlane.compress import TopK
from bitlane.compress.training.experiment import NetworkTraining, TrainingHistory, train
from bitlane.compress.training.images import Images
from bitlane_studies.papers.claim import ClaimVerdict
from bitlane_studies.papers.lqsgd import tables
from bitlane_studies.papers.lqsgd.sizes import QUICK

pytestmark = pytest.mark.torch

LITTLE = replace(QUICK, seeds=2, images=150, epochs=1)


def pictures(count=200):
    """Return images of noise with random classes."""
    rng = np.random.default_rng(0)
    pixels = torch.from_numpy(rng.standard_normal((count, 1, 28, 28)).astype(np.float32))
    classes = torch.from_numpy(rng.integers(0, 10, count))
    return Images(pixels, classes, pixels[:20], classes[:20])


def runs(accuracy, sent, seconds):
    return [
        tables.TimedTraining(TrainingHistory(np.ones(4), accuracy + each, sent, 0.1, np.zeros(4, np.int64)), seconds)
        for each in (-0.001, 0.001)
    ]


def judged(accuracy=0.97, sent=26, seconds=1.2):
    """Return the claim for an LQ-SGD with these results; PowerSGD has an accuracy of 0.97, 100 bytes and 1 second."""
    found = {name: runs(0.97, 100, 1.0) for name in tables.PAPER}
    return tables.judge(found | {"LQ-SGD": runs(accuracy, sent, seconds)}, NetworkTraining(), 1000)


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, ClaimVerdict.HELD),
        ({"accuracy": 0.968}, ClaimVerdict.HELD),
        ({"accuracy": 0.966}, ClaimVerdict.PARTLY),
        ({"sent": 28}, ClaimVerdict.PARTLY),
        ({"seconds": 1.3}, ClaimVerdict.PARTLY),
        ({"accuracy": 0.9, "sent": 50, "seconds": 2}, ClaimVerdict.FAILED),
    ],
)
def test_the_verdict_follows_the_limits(changed, verdict):
    assert judged(**changed).verdict is verdict


def test_the_reason_has_the_figures():
    claim = judged(accuracy=0.9712, sent=25, seconds=1.25)
    assert claim.reason.startswith(
        "The accuracy of LQ-SGD differs by +0.12 points from that of PowerSGD, with 0.250 times its bytes and "
        "1.25 times its computing time"
    )
    assert "| PowerSGD | 97 ± 0.1 | 0.00625 | 4.0 | 4.7 | 1 ± 0 |" in claim.measured


def test_everything_is_measured_from_the_same_start(monkeypatch):
    monkeypatch.setattr(tables, "load_images", lambda name: pictures())
    messages, seen = [], []
    run = tables.timed_training

    def watched(training, compressor, images):
        seen.append((training.seed, type(compressor).__name__, len(images.pixels)))
        return run(training, compressor, images)

    monkeypatch.setattr(tables, "timed_training", watched)
    claim = tables.measure(LITTLE, messages.append)
    assert seen == [(seed, name, 150) for seed in (0, 1) for name in ("NoneType", "PowerSGD", "TopK", "LQSGD")]
    assert len(messages) == 8 and "150 training images" in claim.measured


def test_topk_sends_the_requested_bytes():
    training = NetworkTraining(seed=1)
    volume = 0.02
    history = train(training, TopK(tables.density(volume, training.ranks)), pictures(256))
    assert history.volume == pytest.approx(volume, rel=0.05)
