"""The attack has the objective of the paper and its gradient, and reconstructs images."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.helpers.privacy import CLASSES, PIXELS, blobs, victim

from bitlane.compress import QSGD
from bitlane_studies.privacy.attack import Attack, invert, objective, total_variation
from bitlane_studies.privacy.knowledge import codec_agnostic, codec_aware
from bitlane_studies.privacy.similarity import similarity
from bitlane_studies.privacy.victim import Victim, decoded_payloads, smooth_network

pytestmark = pytest.mark.torch

SPAN = PIXELS.most - PIXELS.least


def dummies(seed):
    """Return random candidate images."""
    return torch.randn(blobs(seed).shape, generator=torch.Generator().manual_seed(seed))


def test_the_objective_is_the_papers(seed):
    """Compare with equation 4 in float64: the cosine of the gradients, and the total variation."""
    attacked, images = victim(seed), dummies(seed)
    seen, mine = (attacked.gradients(each, CLASSES).double().numpy() for each in (blobs(seed), images))
    cosine = (seen * mine).sum(1) / np.linalg.norm(seen, axis=1) / np.linalg.norm(mine, axis=1)
    pixels = images[:, 0].double().numpy()
    variation = np.abs(np.diff(pixels, axis=1)).mean((1, 2)) + np.abs(np.diff(pixels, axis=2)).mean((1, 2))
    found = objective(attacked, codec_agnostic(torch.from_numpy(seen).float()), CLASSES, images, 0.25)
    assert found.numpy() == pytest.approx(1 - cosine + 0.25 * variation, abs=1e-5)


@pytest.mark.parametrize("smoothness", [0.0, 0.1])
def test_the_gradient_of_the_objective_matches_finite_differences(seed, smoothness):
    attacked = Victim(smooth_network(1, PIXELS.side, seed).double())
    compare = codec_agnostic(attacked.gradients(blobs(seed).double(), CLASSES))
    images = dummies(seed).double().requires_grad_()
    objective(attacked, compare, CLASSES, images, smoothness).sum().backward()
    rng = np.random.default_rng(seed)
    for _ in range(3):
        way = torch.from_numpy(rng.normal(size=images.shape))
        with torch.no_grad():
            up, down = (
                float(objective(attacked, compare, CLASSES, images + step * way, smoothness).sum())
                for step in (1e-7, -1e-7)
            )
        assert float((images.grad * way).sum()) == pytest.approx((up - down) / 2e-7, rel=1e-3, abs=1e-6)


def test_total_variation_of_stripes():
    stripes = torch.zeros(2, 1, 4, 4)
    stripes[1, :, :, ::2] = 3.0
    assert total_variation(stripes).tolist() == [0.0, 3.0]


def test_images_are_reconstructed_from_uncompressed_gradients(seed):
    """The similarity to the true image is far above that of another image of the same kind."""
    attacked, images = victim(seed), blobs(seed)
    seen = attacked.gradients(images, CLASSES)
    found = invert(attacked, codec_agnostic(seen), CLASSES, PIXELS, Attack(steps=200, seed=seed))
    assert similarity(images, found, SPAN).mean() > 0.9
    assert similarity(images, images.roll(1, 0), SPAN).mean() < 0.6
    assert float(found.min()) >= PIXELS.least and float(found.max()) <= PIXELS.most


def test_the_best_restart_is_kept(seed):
    attacked = victim(seed)
    compare = codec_agnostic(attacked.gradients(blobs(seed), CLASSES))
    few = Attack(steps=10, seed=seed)
    values = [
        objective(attacked, compare, CLASSES, invert(attacked, compare, CLASSES, PIXELS, attack), few.smoothness)
        for attack in (few, replace(few, restarts=16))
    ]
    assert (values[1] <= values[0] + 1e-6).all()
    assert (values[1] < values[0] - 1e-3).any()


@pytest.mark.parametrize("feedback", [False, True])
def test_a_codec_aware_attacker_reconstructs_more_from_two_bits(seed, feedback):
    attacked, images = victim(seed), blobs(seed)
    compressor = QSGD(2, error_feedback=feedback, seed=seed)
    seen = torch.cat([decoded_payloads(compressor, attacked.layout, [g]) for g in attacked.gradients(images, CLASSES)])
    scores = [
        similarity(images, invert(attacked, compare, CLASSES, PIXELS, Attack(steps=200, seed=seed)), SPAN).mean()
        for compare in (codec_agnostic(seen), codec_aware(compressor, attacked.layout, seen[:, None]))
    ]
    assert scores[1] > scores[0] + min(0.1, (1 - scores[0]) / 2)  # 1 is the image itself
