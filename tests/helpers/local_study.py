"""The tasks of the study of DiLoCo with little data, trained in each way on one rank."""

from __future__ import annotations

import torch

from bitlane.compress.training.images import Images
from bitlane_studies.compression.local.tasks import image_task, text_task
from bitlane_studies.compression.local.text import load_text
from bitlane_studies.compression.local.trial import train
from bitlane_studies.compression.local.ways import TORCHFT, WAYS, recipe_of

OWN_WAYS = [way for way in WAYS if way != TORCHFT]  # those that need no further package


def small_task(name):
    """Return a task with random images, or with a short text."""
    if name == "text":
        return text_task(load_text(20_000, 5_000))
    generator = torch.Generator().manual_seed(0)
    pixels, classes = torch.randn(90, 3, 32, 32, generator=generator), torch.arange(90) % 10
    return image_task(Images(pixels[:50], classes[:50], pixels[50:], classes[50:]))


def play(report, name, recipe, seeds, ways=OWN_WAYS):
    """Train on one rank in each way with each seed."""
    task = small_task(name)
    return {way: [train(report, task, recipe_of(way, recipe), seed, way) for seed in seeds] for way in ways}
