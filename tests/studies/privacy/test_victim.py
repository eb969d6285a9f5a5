"""The victim: its gradients equal those of backward passes, and its payloads those of the codec."""

import numpy as np
import pytest
import torch
from tests.helpers.privacy import CLASSES, PIXELS, blobs, victim
from torch.nn.functional import cross_entropy

from bitlane.compress import QSGD, EFSign, PowerSGD
from bitlane.compress.codecs import linear
from bitlane.compress.codecs.groups import Groups
from bitlane.support.hashing import derive_seed
from bitlane_studies.privacy.victim import Victim, decoded_payloads, smooth_network, step_bytes

pytestmark = pytest.mark.torch


def test_gradients_equal_those_of_single_images(seed):
    network, images = smooth_network(1, PIXELS.side, seed), blobs(seed)
    attacked = Victim(network)
    found = attacked.gradients(images, CLASSES)
    for image, label, vector in zip(images, CLASSES, found, strict=True):
        network.zero_grad()
        cross_entropy(network(image[None]), label[None]).backward()
        for parameter, span in zip(reversed(list(network.parameters())), attacked.layout, strict=True):
            part = vector[span.begin : span.end].view(span.shape)
            assert torch.allclose(part, parameter.grad, rtol=1e-4, atol=1e-6)


def test_a_victim_keeps_its_weights_when_the_network_changes(seed):
    network, images = smooth_network(1, PIXELS.side, seed), blobs(seed)
    attacked = Victim(network)
    before = attacked.gradients(images, CLASSES)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 1
    assert torch.equal(attacked.gradients(images, CLASSES), before)


def test_the_decoded_payload_is_that_of_the_codec(seed):
    attacked = victim(seed)
    vector = attacked.gradients(blobs(seed), CLASSES)[0]
    groups = Groups.of(len(vector))
    body = linear.encode(vector.numpy(), groups, 4, None, derive_seed(seed, 0, 0, 0))
    decoded = np.zeros(len(vector), np.float32)
    linear.decode(body, groups, 4, decoded)
    assert np.array_equal(decoded_payloads(QSGD(4, seed=seed), attacked.layout, [vector])[0].numpy(), decoded)
    assert torch.equal(decoded_payloads(None, attacked.layout, [vector])[0], vector)
    assert step_bytes(QSGD(4), attacked.layout, [vector] * 2) == len(body)


def test_a_residual_changes_the_next_payload(seed):
    """With error feedback, the payload of the second step includes the residual of the first."""
    attacked = victim(seed)
    first, second, third = attacked.gradients(blobs(seed), CLASSES)
    for compressor in (EFSign(), PowerSGD(1)):
        found = decoded_payloads(compressor, attacked.layout, [first, second, third])
        alone = decoded_payloads(compressor, attacked.layout, [second])[0]
        assert torch.equal(found[0], decoded_payloads(compressor, attacked.layout, [first])[0])
        assert not torch.equal(found[1], alone)


def test_bytes_without_a_compressor_are_those_of_ring_all_reduce(seed):
    vector = torch.zeros(1000)
    assert step_bytes(None, victim(seed).layout, [vector] * 4) == pytest.approx(2 * 3 / 4 * 4000)


def test_making_a_network_keeps_the_global_random_state(seed):
    state = torch.random.get_rng_state()
    one, other = smooth_network(3, 16, seed), smooth_network(3, 16, seed)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert one(torch.zeros(2, 3, 16, 16)).shape == (2, 10)
