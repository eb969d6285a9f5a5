"""The two tasks: a residual network on CIFAR-10, and a causal transformer on text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, cross_entropy

from bitlane.compress.seeded import seeded
from bitlane.compress.training.images import Images, load_images
from bitlane.compress.training.networks import network
from bitlane.errors import BitlaneError

from .text import Text, load_text, windows
from .transformer import ByteTransformer

LENGTH = 32  # bytes of a window


@dataclass(frozen=True)
class ModelTask:
    """A model, and labelled examples for it.

    Attributes
    ----------
    build_model : callable
        Returns a new model for a seed.
    inputs, targets : Tensor
        Training examples; targets are classes, int64.
    held_out_inputs, held_out_targets : Tensor
        Held-out examples.
    """

    build_model: Callable[[int], nn.Module]
    inputs: Tensor
    targets: Tensor
    held_out_inputs: Tensor
    held_out_targets: Tensor

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        """Return the mean cross-entropy of the training examples with these indices, in nats."""
        return _cross_entropy(model, self.inputs[batch], self.targets[batch], "mean")

    def held_out_loss(self, model: nn.Module) -> float:
        """Return the mean cross-entropy of all held-out targets, in nats."""
        pairs = zip(self.held_out_inputs.split(250), self.held_out_targets.split(250), strict=True)
        with torch.no_grad():
            total = sum(float(_cross_entropy(model, x, y, "sum")) for x, y in pairs)
        return float(total / self.held_out_targets.numel())


def _cross_entropy(model: nn.Module, x: Tensor, y: Tensor, reduction: str) -> Tensor:
    return cross_entropy(model(x).flatten(0, -2), y.flatten(), reduction=reduction)


def image_task(images: Images) -> ModelTask:
    """Return images at half their resolution, so that a step is short, and a residual network of 8 layers."""
    inputs, held_out = avg_pool2d(images.pixels, 2), avg_pool2d(images.held_out_pixels, 2)
    _, channels, side, _ = inputs.shape
    model = partial(network, "resnet8", channels, side)
    return ModelTask(model, inputs, images.classes, held_out, images.held_out_classes)


def text_task(text: Text) -> ModelTask:
    """Return windows of a text, and a transformer that predicts their next bytes."""
    return ModelTask(_transformer, *windows(text.training, LENGTH), *windows(text.held_out, LENGTH))


def _transformer(seed: int) -> nn.Module:
    with seeded(seed):
        return ByteTransformer(length=LENGTH)


TASKS: dict[str, Callable[[], ModelTask]] = {
    "images": lambda: image_task(load_images("cifar10")),
    "text": lambda: text_task(load_text()),
}


def load_task(name: str) -> ModelTask:
    """Return a task of `TASKS`; raise BitlaneError for another name."""
    if name not in TASKS:
        raise BitlaneError(f"unknown task {name!r}: choose one of {', '.join(TASKS)}")
    return TASKS[name]()
