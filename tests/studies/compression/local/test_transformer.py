"""The networks of the study: the transformer is causal, and gradients are as finite differences have them."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from bitlane.compress.training.networks import network
from bitlane_studies.compression.local.transformer import BYTE_VALUES, ByteTransformer

pytestmark = pytest.mark.torch


def make(seed, **sizes):
    torch.manual_seed(seed)
    return ByteTransformer(**sizes).double()


def test_a_later_byte_changes_no_earlier_logit(seed):
    model = make(seed, width=8, depth=2, length=6)
    x = torch.randint(0, BYTE_VALUES, (2, 6))
    changed = x.clone()
    changed[:, 4] = (x[:, 4] + 1) % BYTE_VALUES
    before, after = model(x), model(changed)
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


def test_an_earlier_byte_and_its_position_matter(seed):
    model = make(seed, width=8, depth=1, length=6)
    x = torch.tensor([[1, 2, 3], [2, 1, 3]])
    found = model(x)[:, 2]
    assert not torch.allclose(found[0], found[1])


def check_gradients(model, x, y, seed):
    """Compare the derivative in a random direction with a central difference."""

    def loss():
        return cross_entropy(model(x).flatten(0, -2), y.flatten())

    model.zero_grad()
    loss().backward()
    parameters = list(model.parameters())
    assert all(each.grad is not None and each.grad.abs().max() > 0 for each in parameters)
    generator = torch.Generator().manual_seed(seed)
    directions = [torch.randn(each.shape, generator=generator, dtype=each.dtype) for each in parameters]
    exact = float(sum((each.grad * along).sum() for each, along in zip(parameters, directions, strict=True)))
    found = []
    with torch.no_grad():
        for move in (1e-9, -2e-9):  # small, because of the kinks of the residual network
            for each, along in zip(parameters, directions, strict=True):
                each += move * along
            found.append(float(loss()))
    assert (found[0] - found[1]) / 2e-9 == pytest.approx(exact, rel=1e-3, abs=1e-5)


def test_gradients_of_the_transformer(seed):
    model = make(seed, width=8, depth=2, length=5)
    x, y = torch.randint(0, BYTE_VALUES, (2, 3, 5))
    check_gradients(model, x, y, seed)


def test_gradients_of_the_small_residual_network(seed):
    model = network("resnet8", 3, 16, seed).double()
    torch.manual_seed(seed)
    check_gradients(model, torch.randn(3, 3, 16, 16).double(), torch.randint(0, 10, (3,)), seed)


def test_the_small_residual_network_has_eight_layers():
    shapes = [tuple(each.shape) for each in network("resnet8", 3, 16, 0).parameters() if each.dim() > 1]
    first, last, around = (16, 3, 3, 3), (10, 64), [shape for shape in shapes if shape[-2:] == (1, 1)]
    assert shapes[0] == first and shapes[-1] == last and around == [(32, 16, 1, 1), (64, 32, 1, 1)]
    assert len(shapes) - len(around) == 8
