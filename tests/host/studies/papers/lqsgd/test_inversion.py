"""Gradient inversion for `bitlane reproduce lqsgd`: which images, behind which network, seen through which codec."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from bitlane.compress import QSGD, EFSign, TopK
from bitlane.compress.training.images import Images
from bitlane.studies.papers.lqsgd import inversion
from bitlane.studies.papers.lqsgd.sizes import QUICK
from bitlane.studies.privacy.attack import Attack

pytestmark = pytest.mark.torch

LITTLE = replace(QUICK, attacked=2, attack_steps=30, victim_steps=2)


def pictures(count=200, side=12):
    """A bright spot each, somewhere, with a class that has nothing to do with it."""
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


def test_images_of_attack_rehearsal_and_training_are_apart(monkeypatch):
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


def test_training_changes_the_gradient_that_is_seen():
    fresh, later = (inversion.target("mnist", steps, LITTLE) for steps in (0, 3))
    assert not torch.allclose(fresh.payloads(None), later.payloads(None), rtol=0.01)


def test_every_codec_is_attacked_by_both():
    said = []
    found = inversion.attack_all_codecs("mnist", 0, LITTLE, said.append)
    assert list(found.sent) == list(found.naive) == list(found.knowing) == ["none", "EFSign", "TopK"]
    assert len(said) == 3 and said[1] == "inversion: MNIST, network trained for 0 steps, EFSign"
    assert found.sent["none"] > 10 * found.sent["EFSign"] > 0
    for attempt in (*found.naive.values(), *found.knowing.values()):
        assert attempt.scores.shape == (2,) and attempt.found.shape == (2, 1, 12, 12)
    assert found.naive["none"].scores.mean() > found.naive["TopK"].scores.mean() + 0.1


def test_the_better_way_is_rehearsed():
    """Signs are worth more to who knows them; without a codec both ways are one."""
    aim = inversion.target("mnist", 0, LITTLE)
    assert inversion.rehearsed(aim, EFSign(), Attack(steps=60))[0]
    way, attack = inversion.rehearsed(aim, None, Attack(steps=40))
    assert not way and attack.smoothness in inversion.SMOOTHNESS and attack.steps == 40


def test_what_is_sent_again_tells_more():
    """TopK keeps the rest and sends it later: the mean of many payloads comes near the gradient."""
    aim = inversion.target("mnist", 0, LITTLE)
    gradient = aim.payloads(None)[:, 0]
    once, often = (aim.payloads(TopK(0.05), steps).mean(1) for steps in (1, 16))
    assert (often - gradient).norm() < 0.5 * (once - gradient).norm()
    scores = [inversion.repeated(aim, TopK(0.05), steps, LITTLE).scores.mean() for steps in (1, 16)]
    assert scores[1] > scores[0] + 0.1


def test_codecs_are_the_papers_and_ours(monkeypatch):
    monkeypatch.undo()
    settings = [each for each in inversion.CODECS.values() if each is not None]
    assert inversion.CODECS["none"] is None and len(settings) == len(set(settings)) == len(inversion.CODECS) - 1
    assert QSGD(2) in settings
