"""The ways to train: alone, with an average of the gradients in each step, and with rounds of DiLoCo."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress.compressor import Compressor
from bitlane.compress.compressors.dense import QSGD
from bitlane.compress.compressors.uncompressed import Uncompressed
from bitlane.compress.ddp.stats import ring_bytes
from bitlane.compress.local.diloco import DiLoCo

from .recipe import Recipe


class Alone:
    """A rank that trains by itself. Its loss shows how much of the other ways' loss is due to averaging.

    Attributes
    ----------
    called : torch.nn.Module
        The module to call in a step.
    rate : float
        Largest learning rate of the inner optimizer.
    scope : context manager
        Holds connections while it is open.
    """

    def __init__(self, model: nn.Module, recipe: Recipe):
        self.called, self.rate = model, recipe.rate
        self.scope: AbstractContextManager[object] = nullcontext()

    def step(self) -> None:
        """Do what is due after a step of the inner optimizer."""

    def finish(self) -> None:
        """Make the parameters of all ranks identical, if this way does."""

    def declared_bytes(self, steps: int) -> int:
        """Return the bytes that this rank has sent by its own count, or should have sent by the formula."""
        return 0


class EachStep(Alone):
    """Plain DDP: the gradients are averaged in float32 in each step. The declared bytes are those of a ring."""

    def __init__(self, model: nn.Module, recipe: Recipe):
        super().__init__(model, recipe)
        self.called = DistributedDataParallel(model)

    def declared_bytes(self, steps: int) -> int:
        values = sum(parameter.numel() for parameter in self.called.parameters())
        return round(steps * ring_bytes(values, dist.get_world_size()))


class Rounds(Alone):
    """DiLoCo with a compressor. The declared bytes are those of its transport, with the start."""

    def __init__(self, compressor: Compressor, model: nn.Module, recipe: Recipe):
        super().__init__(model, recipe)
        self.rate = recipe.local_rate
        outer = partial(outer_optimizer, recipe)
        self.scope = self.diloco = DiLoCo(model, outer, compressor, recipe.every)

    def step(self) -> None:
        self.diloco.step()

    def finish(self) -> None:
        self.diloco.finish()

    def declared_bytes(self, steps: int) -> int:
        return self.diloco.transport.sent


def outer_optimizer(recipe: Recipe, tensors: list[Tensor]) -> torch.optim.Optimizer:
    """Return SGD with the outer rate and the Nesterov momentum of a recipe; without momentum if that is 0."""
    momentum = recipe.outer_momentum
    return torch.optim.SGD(tensors, recipe.outer_rate, momentum, nesterov=momentum > 0)


PLAIN, FLOAT32, FOUR_BITS, ALONE = "plain DDP", "DiLoCo, float32", "DiLoCo, 4 bits", "each rank alone"
WAYS: dict[str, Callable[[nn.Module, Recipe], Alone]] = {
    PLAIN: EachStep,
    FLOAT32: partial(Rounds, Uncompressed()),
    FOUR_BITS: partial(Rounds, QSGD(bits=4, error_feedback=True)),
    ALONE: Alone,
}
