"""Gradient inversion against every codec: images, networks, attackers and tuning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from bitlane.compress import QSGD, EFSign, TopK
from bitlane.compress.training.images import Images
from bitlane_studies.papers.lqsgd import inversion
from bitlane_studies.papers.lqsgd.sizes import QUICK
from bitlane_studies.privacy.attack import Attack

pytestmark = pytest.mark.torch

LITTLE = replace(QUICK, attacked=2, attack_steps=30, victim_steps=2)


def pictures(count=200, side=12):
    """Return images with one bright spot each and random classes."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:side, :side]
    at = rng.uniform(2, side - 3, (count, 2, 1, 1))
    pixels = torch.from_numpy(2 * np.exp(-((x - at[:, 0]) ** 2 + (y - at[:, 1]) ** 2) / 4) - 1).float()[:, None]
    classes = torch.from_numpy(rng.integers(0, 10, count))
    return Images(pixels, classes, pixels[:20], classes[:20])


@pytest.fixture(autouse=True)
def little(monkeypatch):
    monkeypatch.setattr(inversion, "load_images", lambda _: pictures())
    monkeypatch.setattr(inversion, "CODECS", {"none": None, "EFSign": EFSign(), "TopK": TopK(0.05)})


def test_images_of_attack_tuning_and_training_are_separate(monkeypatch):
    trained_on = []
    forward = torch.nn.Sequential.forward

    def watched(network, images):
        trained_on.append(images)
        return forward(network, images)

    monkeypatch.setattr(torch.nn.Sequential, "forward", watched)
    aim = inversion.target("mnist", 2, LITTLE)
    parts = [aim.images, aim.rehearsal, *trained_on]
    assert torch.equal(torch.cat(parts), pictures().pixels[: sum(map(len, parts))])
    assert [len(each) for each in parts] == [2, inversion.REHEARSED, inversion.BATCH, inversion.BATCH]


def test_training_changes_the_observed_gradient():
    fresh, later = (inversion.target("mnist", steps, LITTLE) for steps in (0, 3))
    assert not torch.allclose(fresh.payloads(None), later.payloads(None), rtol=0.01)


def test_both_attackers_attack_every_codec():
    messages = []
    found = inversion.attack_all_codecs("mnist", 0, LITTLE, messages.append)
    assert list(found.sent) == list(found.codec_agnostic) == list(found.codec_aware) == ["none", "EFSign", "TopK"]
    assert len(messages) == 3 and messages[1] == "inversion: MNIST, network trained for 0 steps, EFSign"
    assert found.sent["none"] > 10 * found.sent["EFSign"] > 0
    for attempt in (*found.codec_agnostic.values(), *found.codec_aware.values()):
        assert attempt.scores.shape == (2,) and attempt.reconstructions.shape == (2, 1, 12, 12)
    assert found.codec_agnostic["none"].scores.mean() > found.codec_agnostic["TopK"].scores.mean() + 0.1


def test_the_better_comparison_is_chosen():
    """Knowledge of the codec helps against signs; without a codec both comparisons are the same."""
    aim = inversion.target("mnist", 0, LITTLE)
    assert inversion.tune_on_rehearsal(aim, EFSign(), Attack(steps=60))[0]
    aware, attack = inversion.tune_on_rehearsal(aim, None, Attack(steps=40))
    assert not aware and attack.smoothness in inversion.SMOOTHNESS and attack.steps == 40


def test_repeated_payloads_reveal_more():
    """TopK sends residuals later, so the mean of many payloads is closer to the gradient."""
    aim = inversion.target("mnist", 0, LITTLE)
    gradient = aim.payloads(None)[:, 0]
    once, often = (aim.payloads(TopK(0.05), steps).mean(1) for steps in (1, 16))
    assert (often - gradient).norm() < 0.5 * (once - gradient).norm()
    scores = [inversion.attack_repeated_payloads(aim, TopK(0.05), steps, LITTLE).scores.mean() for steps in (1, 16)]
    assert scores[1] > scores[0] + 0.1


def test_codecs_are_the_papers_and_ours(monkeypatch):
    monkeypatch.undo()
    settings = [each for each in inversion.CODECS.values() if each is not None]
    assert inversion.CODECS["none"] is None and len(settings) == len(set(settings)) == len(inversion.CODECS) - 1
    assert QSGD(2) in settings
