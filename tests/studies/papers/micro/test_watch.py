"""Recording the density does not change the training, and the density is the share of nonzero averages."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bitlane.compress import MiCRO, TopK
from bitlane.compress.training.experiment import NetworkTraining, train
from bitlane.compress.training.images import Images
from bitlane_studies.papers.micro.watch import train_and_watch_density

pytestmark = pytest.mark.torch


def pictures(seed):
    rng = np.random.default_rng(seed)
    pixels = torch.from_numpy(rng.standard_normal((60, 1, 28, 28)).astype(np.float32))
    classes = torch.from_numpy(rng.integers(0, 10, 60))
    return Images(pixels[:48], classes[:48], pixels[48:], classes[48:])


@pytest.mark.parametrize("compressor", [MiCRO(0.01), TopK(0.01)])
def test_it_is_the_same_training(seed, compressor):
    images, training = pictures(seed), NetworkTraining("perceptron", 2, 8, seed=seed % 1000)
    history, densities = train_and_watch_density(training, compressor, images)
    plain = train(training, compressor, images)
    assert np.array_equal(history.losses, plain.losses) and history.bytes_sent == plain.bytes_sent
    assert densities.shape == (3,)
    if isinstance(compressor, MiCRO):
        assert densities == pytest.approx(0.01, rel=0.001)
    else:
        assert (densities > 0.01).all() and (densities <= 0.0201).all()
