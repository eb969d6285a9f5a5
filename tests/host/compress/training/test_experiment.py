"""Training with ranks as threads: equal to one process with the whole batch, with each image used once per epoch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from bitlane.compress import QSGD, MQGrad
from bitlane.compress.training.experiment import NetworkTraining, accuracy, batches, layout_of, train
from bitlane.compress.training.images import Images
from bitlane.compress.training.networks import NETWORKS, network
from bitlane.errors import DataError
from bitlane.policies.protocol import Observation

pytestmark = pytest.mark.torch


def pictures(seed, count=640):
    """Return images whose class is the bright one of ten bands of rows."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 10, count)
    pixels = rng.normal(0, 0.3, (count, 1, 28, 28)).astype(np.float32)
    for image, label in zip(pixels, classes, strict=True):
        image[0, 2 * label + 2 : 2 * label + 5] += 1.5
    seen, unseen = slice(0, count * 3 // 4), slice(count * 3 // 4, count)
    arrays = (pixels[seen], classes[seen], pixels[unseen], classes[unseen])
    return Images(*(torch.from_numpy(array) for array in arrays))


def test_float32_ranks_equal_one_process(seed):
    images = pictures(seed)
    training = NetworkTraining("perceptron", ranks=3, batch=8, epochs=2, rate=0.05, seed=seed % 1000)
    found = train(training, None, images)
    model = network("perceptron", 1, 28, training.seed)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, 0.9)
    dealt = [batches(training, len(images.pixels), rank) for rank in range(3)]
    losses = []
    for step, parts in enumerate(zip(*dealt, strict=True)):
        for group in optimizer.param_groups:
            group["lr"] = 0.05 * (1 - step / len(dealt[0]))
        optimizer.zero_grad()
        loss = cross_entropy(model(images.pixels[torch.cat(parts)]), images.classes[torch.cat(parts)])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert found.losses == pytest.approx(losses, abs=1e-3)
    assert found.losses[-1] < 0.5 * found.losses[0]
    assert found.accuracy == pytest.approx(accuracy(model, images), abs=0.02)
    assert found.volume == 1


def test_a_compressor_sends_less_and_learns(seed):
    found = train(NetworkTraining("perceptron", 2, 16, 3, seed=seed % 1000), QSGD(4), pictures(seed))
    assert found.volume == pytest.approx(0.127, abs=0.001)
    assert found.losses[-1] < 0.5 * found.losses[0]


def test_a_policy_uses_the_clock_and_its_bits_are_reported(seed):
    """The bits equal those of a separate chooser with the mean losses and the times of the clock."""
    policy = MQGrad(period=2, exploration=0.3, smoothing=0.5, scale=1.0)
    asked = []

    def clock(bits):
        asked.append(bits)
        return (1e6 if bits == 3 else 1.0), 0.0

    training, images = NetworkTraining("perceptron", 2, 8, 2, seed=seed % 1000), pictures(seed)
    found = train(training, QSGD(policy), images, clock=clock)
    assert sorted(asked) == sorted([*found.step_bits, *found.step_bits])
    assert len(set(found.step_bits.tolist())) > 1
    chooser = policy.start()
    for loss, bits in zip(found.losses, found.step_bits, strict=True):
        assert chooser.bits == bits
        chooser.after(Observation(loss, clock(bits)[0], lambda: 1.0), lambda own: [own])


def test_an_epoch_uses_every_image_once():
    training = NetworkTraining(ranks=3, batch=5, epochs=2, seed=4)
    dealt = [torch.cat(batches(training, 62, rank)) for rank in range(3)]
    first, second = (torch.cat([each.chunk(2)[epoch] for each in dealt]) for epoch in range(2))
    assert len(first.unique()) == len(second.unique()) == 60
    assert not torch.equal(first, second)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_depend_only_on_their_seed(name):
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    first, again, other = (network(name, 3, 32, seed) for seed in (5, 5, 6))
    assert torch.equal(torch.rand(1), expected)
    vectors = [torch.nn.utils.parameters_to_vector(model.parameters()) for model in (first, again, other)]
    assert torch.equal(vectors[0], vectors[1]) and not torch.equal(vectors[0], vectors[2])
    assert first(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_unknown_networks_are_rejected():
    with pytest.raises(DataError, match="'vgg': choose one of perceptron"):
        network("vgg", 3, 32, 0)


def test_the_last_parameter_comes_first():
    layout = layout_of([torch.zeros(2, 3), torch.zeros(4)])
    assert [(place.begin, place.end, place.shape) for place in layout] == [(0, 4, (4,)), (4, 10, (2, 3))]
