"""Gradient inversion against every codec, by a codec-agnostic and a codec-aware attacker."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bitlane.compress.compressor import Compressor
from bitlane.compress.compressors.dense import QSGD, EFSign
from bitlane.compress.compressors.lowrank import LQSGD, PowerSGD
from bitlane.compress.compressors.micro import MiCRO
from bitlane.compress.compressors.topk import TopK
from bitlane.compress.training.images import Images, load_images
from bitlane_studies.privacy.attack import Attack, PixelFormat, invert
from bitlane_studies.privacy.knowledge import Compare, codec_agnostic, codec_aware
from bitlane_studies.privacy.similarity import similarity
from bitlane_studies.privacy.victim import Victim, decoded_payloads, smooth_network, step_bytes

from ..claim import Log
from .sizes import LQSGDSize

CODECS: dict[str, Compressor | None] = {
    "none": None,
    "QSGD, 8 bits": QSGD(8),
    "QSGD, 4 bits": QSGD(4),
    "QSGD, 2 bits": QSGD(2),
    "EFSign": EFSign(),
    "TopK, 10 %": TopK(0.1),
    "TopK, 1 %": TopK(0.01),
    "MiCRO, 1 %": MiCRO(0.01),
    "PowerSGD, rank 1": PowerSGD(1),
    "PowerSGD, rank 2": PowerSGD(2),
    "PowerSGD, rank 4": PowerSGD(4),
    "LQ-SGD, rank 1": LQSGD(1),
    "LQ-SGD, rank 2": LQSGD(2),
    "LQ-SGD, rank 4": LQSGD(4),
}
SETS = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
SMOOTHNESS = (1e-3, 1e-2, 3e-2)  # the candidates for tuning
REHEARSED = 3  # images for tuning
BATCH, RATE = 32, 0.1  # of the training of the attacked network


@dataclass(frozen=True)
class AttackResult:
    """The result of an attack.

    Attributes
    ----------
    scores : float64 [images]
        SSIM of the reconstructions.
    reconstructions : Tensor, float32 [images, channels, side, side]
        The reconstructions.
    """

    scores: NDArray[np.float64]
    reconstructions: Tensor


@dataclass(frozen=True)
class Target:
    """The attacked network and images [k], and the attacker's images for tuning (the rehearsal)."""

    victim: Victim
    pixels: PixelFormat
    images: Tensor
    classes: Tensor
    rehearsal: Tensor
    rehearsal_classes: Tensor

    def payloads(self, compressor: Compressor | None, steps: int = 1) -> Tensor:
        """Return the decoded payloads, float32 [k, steps, n], of ranks with the same image in every step."""
        return _payloads(self.victim, compressor, self.images, self.classes, steps)

    def attempt(self, compare: Compare, attack: Attack) -> AttackResult:
        """Run an attack, and score its result."""
        reconstructions = invert(self.victim, compare, self.classes, self.pixels, attack)
        return AttackResult(
            similarity(self.images, reconstructions, self.pixels.most - self.pixels.least), reconstructions
        )


def target(name: str, trained: int, size: LQSGDSize) -> Target:
    """Return the first images of a set as target, with a network trained on other images for `trained` steps."""
    images = load_images(name)
    _, channels, side, _ = images.pixels.shape
    network = smooth_network(channels, side, seed=0)
    attacked, own = slice(0, size.attacked), slice(size.attacked, size.attacked + REHEARSED)
    _train(network, images, size.attacked + REHEARSED, trained)
    pixels = PixelFormat(channels, side, float(images.pixels.min()), float(images.pixels.max()))
    splits = [tensor for each in (attacked, own) for tensor in (images.pixels[each], images.classes[each])]
    return Target(Victim(network), pixels, *splits)


@dataclass(frozen=True)
class InversionCase:
    """The results of both attackers for all codecs, on one set and network.

    Attributes
    ----------
    name : str
        Name of the set.
    trained : int
        Training steps of the network.
    target : Target
        The attacked network and images.
    sent : dict
        Bytes of a step, by codec.
    codec_agnostic, codec_aware : dict
        Results of the two attackers, by codec.
    """

    name: str
    trained: int
    target: Target
    sent: dict[str, int]
    codec_agnostic: dict[str, AttackResult]
    codec_aware: dict[str, AttackResult]


def attack_all_codecs(name: str, trained: int, size: LQSGDSize, log: Log) -> InversionCase:
    """Attack the first payload of every codec with both attackers.

    The codec-agnostic attacker is tuned without compression, the codec-aware one for each codec.
    """
    aim = target(name, trained, size)
    _, attack = tune_on_rehearsal(aim, None, Attack(steps=size.attack_steps))
    pair = aim.victim.gradients(aim.rehearsal, aim.rehearsal_classes)[:2]
    case = InversionCase(SETS[name], trained, aim, {}, {}, {})
    for label, compressor in CODECS.items():
        log(f"inversion: {SETS[name]}, network trained for {trained} steps, {label}")
        payloads = aim.payloads(compressor)
        case.sent[label] = step_bytes(compressor, aim.victim.layout, list(pair))
        case.codec_agnostic[label] = aim.attempt(codec_agnostic(payloads[:, -1]), attack)
        aware, best = tune_on_rehearsal(aim, compressor, attack)
        compare = codec_aware(compressor, aim.victim.layout, payloads) if aware else codec_agnostic(payloads[:, -1])
        case.codec_aware[label] = aim.attempt(compare, best)
    return case


def attack_repeated_payloads(aim: Target, compressor: Compressor | None, steps: int, size: LQSGDSize) -> AttackResult:
    """Run the codec-agnostic attack on the mean of `steps` payloads of the same gradient."""
    _, attack = tune_on_rehearsal(aim, None, Attack(steps=size.attack_steps))
    return aim.attempt(codec_agnostic(aim.payloads(compressor, steps).mean(1)), attack)


def tune_on_rehearsal(aim: Target, compressor: Compressor | None, attack: Attack) -> tuple[bool, Attack]:
    """Tune the attack on the rehearsal images; return whether to use knowledge of the codec, and the settings."""
    times = len(SMOOTHNESS)
    payloads = _payloads(aim.victim, compressor, aim.rehearsal, aim.rehearsal_classes, 1).repeat(times, 1, 1)
    own = replace(aim, images=aim.rehearsal.repeat(times, 1, 1, 1), classes=aim.rehearsal_classes.repeat(times))
    tried = replace(attack, smoothness=torch.tensor(SMOOTHNESS).repeat_interleave(len(aim.rehearsal)))
    comparisons = (codec_agnostic(payloads[:, -1]), codec_aware(compressor, aim.victim.layout, payloads))
    scores = np.array([own.attempt(compare, tried).scores.reshape(times, -1).mean(1) for compare in comparisons])
    aware, best = np.unravel_index(scores.argmax(), scores.shape)
    return bool(aware), replace(attack, smoothness=SMOOTHNESS[best])


def _payloads(victim: Victim, compressor: Compressor | None, images: Tensor, classes: Tensor, steps: int) -> Tensor:
    gradients = victim.gradients(images, classes).unbind()
    return torch.stack([decoded_payloads(compressor, victim.layout, [gradient] * steps) for gradient in gradients])


def _train(network: nn.Module, images: Images, first: int, steps: int) -> None:
    """Train with SGD on the images from number `first`, in their order."""
    optimizer = torch.optim.SGD(network.parameters(), RATE)
    for step in range(steps):
        batch = slice(first + step * BATCH, first + (step + 1) * BATCH)
        optimizer.zero_grad()
        cross_entropy(network(images.pixels[batch]), images.classes[batch]).backward()
        optimizer.step()
