"""A training with `Auto` on a link on which fewer bits are always faster ends with the loss of exact averages."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bitlane.compress import QSGD, Auto
from bitlane.compress.auto.measured import CHOICES, Measured
from bitlane.compress.training.experiment import NetworkTraining, train
from bitlane.compress.training.images import Images

pytestmark = pytest.mark.torch

LAST = 20  # steps whose mean loss is compared


def pictures(seed, count=2000):
    """Return noisy images whose class is the brighter one of ten bands of rows."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 10, count)
    pixels = rng.normal(0, 1.2, (count, 1, 28, 28)).astype(np.float32)
    for image, label in zip(pixels, classes, strict=True):
        image[0, 2 * label + 2 : 2 * label + 5] += 0.5
    return Images(*(torch.from_numpy(each) for each in (pixels, classes, pixels[:10], classes[:10])))


def test_the_loss_is_that_of_exact_averages(seed, monkeypatch):
    """Within 1 %, in two trainings; 2 bits in all steps would miss it, so the test can tell."""
    monkeypatch.setattr(Measured, "step_seconds", lambda *_: np.array(CHOICES, float))
    changes = []
    for number in range(2):
        images = pictures([seed, number])
        training = NetworkTraining("perceptron", 2, 16, 2, rate=0.02, seed=(seed + number) % 1000)
        exact = train(training, None, images).losses
        found = train(training, Auto(period=25), images)
        changes.append(found.losses[-LAST:].mean() / exact[-LAST:].mean() - 1)
        assert exact[-LAST:].mean() < 0.6 * exact[0] and 4 <= found.step_bits[-1] <= 8
    assert max(map(abs, changes)) < 0.01, changes
    rounded = train(training, QSGD(2), images).losses
    assert abs(rounded[-LAST:].mean() / exact[-LAST:].mean() - 1) > 0.01
