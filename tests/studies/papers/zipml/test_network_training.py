"""The network with five model levels: rounded weights, gradients, learning and repeatability."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bitlane_studies.papers.zipml import network
from bitlane_studies.papers.zipml.model_levels import CHOICES, LEVELS, on_levels
from bitlane_studies.papers.zipml.network import SHAPES, train_network

pytestmark = pytest.mark.torch


def pictures(seed, count):
    """Return images whose class is the position of a bright band of rows."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, count, dtype=np.uint8)
    images = rng.integers(0, 60, (count, 3, 32, 32), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[:, 3 * label : 3 * label + 4] += 150
    return images, labels


def test_rounded_weights_pass_the_gradient_on(seed):
    weights = torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(seed), requires_grad=True)
    rounded = network._rounded(torch, weights, "optimal")
    assert rounded.detach().numpy() == pytest.approx(on_levels(weights.detach().numpy(), "optimal"), abs=1e-6)
    (rounded * torch.arange(5.0)).sum().backward()
    assert torch.equal(weights.grad, torch.arange(5.0).expand(4, 3, 5, 5))


@pytest.mark.parametrize("choice", ["uniform", "optimal"])
def test_every_layer_reads_five_levels_in_training_and_in_test(choice, monkeypatch):
    read = []
    forward = network._network

    def watched(torch, pixels, weights, biases):
        read.append([len(np.unique(each.detach().numpy().round(6))) for each in weights])
        return forward(torch, pixels, weights, biases)

    monkeypatch.setattr(network, "_network", watched)
    train_network(pictures(1, 200), pictures(2, 100), choice, 1, 0)
    assert len(read) == 3 and all(count <= LEVELS for each in read for count in each)
    assert np.median(read) == LEVELS


@pytest.mark.parametrize("choice", ["full", "optimal"])
def test_it_learns(choice):
    """40 steps suffice with full precision and optimal levels, but not with uniform levels."""
    found = train_network(pictures(3, 1000), pictures(4, 300), choice, 4, 0)
    assert found.losses[-1] < 0.6 * found.losses[0]
    assert found.accuracy > 0.4


@pytest.mark.parametrize("choice", CHOICES)
def test_a_seed_makes_it_repeatable(choice):
    seen, held_out = pictures(3, 200), pictures(4, 100)
    once, again, other = (train_network(seen, held_out, choice, 1, seed) for seed in (0, 0, 1))
    assert np.array_equal(once.losses, again.losses) and once.accuracy == again.accuracy
    assert once.losses[0] != other.losses[0]


def test_shapes_fit_an_image():
    weights = [torch.zeros(shape) for shape in SHAPES]
    biases = [torch.zeros(shape[0]) for shape in SHAPES]
    assert network._network(torch, torch.zeros(2, 3, 32, 32), weights, biases).shape == (2, 10)
