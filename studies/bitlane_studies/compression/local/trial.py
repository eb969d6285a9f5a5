"""One training on one rank: held-out loss, and bytes at the socket from before the start to after the finish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

import torch
import torch.distributed as dist

from bitlane.compress.collectives.sockets import bytes_at_rest
from bitlane.compress.training.experiment import NetworkTraining, batches

from .recipe import WEIGHT_DECAY, LocalRecipe
from .tasks import ModelTask, load_task
from .ways import WAYS, recipe_of


@dataclass(frozen=True)
class LocalTrial:
    """The result of one way on one rank.

    Attributes
    ----------
    loss : float
        Mean cross-entropy of the held-out targets at the end, in nats.
    socket_bytes : int
        Bytes that the kernel has sent and that the other ranks have acknowledged, with the start and the finish.
    declared_bytes : int
        Bytes that the way counts by itself.
    """

    loss: float
    socket_bytes: int
    declared_bytes: int


@dataclass(frozen=True)
class TrialProgress:
    """How far a rank is: a way, a seed, and `steps` of the `of` inner steps; the held-out loss after the last one."""

    way: str
    seed: int
    steps: int
    of: int
    loss: float | None = None


def run_rank(
    report: Callable[[TrialProgress], None], task: str, recipe: LocalRecipe, seeds: Sequence[int], ways: Sequence[str]
) -> dict[str, list[LocalTrial]]:
    """Train one rank in each way with each seed, and return the trials of each way."""
    torch.set_num_threads(1)
    loaded = load_task(task)
    trials: dict[str, list[LocalTrial]] = {way: [] for way in ways}
    for seed in seeds:
        for way in ways:
            trials[way].append(train(report, loaded, recipe_of(way, recipe), seed, way))
    return trials


def train(
    report: Callable[[TrialProgress], None], task: ModelTask, recipe: LocalRecipe, seed: int, way: str
) -> LocalTrial:
    """Train one rank in one way."""
    model = task.build_model(seed)
    own_batches = _batches(recipe, len(task.inputs), seed)
    dist.barrier()
    before = bytes_at_rest()
    averaging = WAYS[way](model, recipe)
    optimizer = torch.optim.AdamW(model.parameters(), averaging.rate, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, recipe.factor)
    with averaging.scope(optimizer):
        for step, batch in enumerate(own_batches):
            optimizer.zero_grad()
            task.loss(averaging.called, batch).backward()
            optimizer.step()
            schedule.step()
            averaging.step()
            if (step + 1) % 50 == 0:
                report(TrialProgress(way, seed, step + 1, recipe.steps))
        averaging.finish()
        sent = averaging.socket_bytes() - before
        dist.barrier()  # no rank closes its connections while another one counts
    loss = task.held_out_loss(model)
    report(TrialProgress(way, seed, recipe.steps, recipe.steps, loss))
    return LocalTrial(loss, sent, averaging.declared_bytes(recipe.steps))


def _batches(recipe: LocalRecipe, count: int, seed: int) -> list[torch.Tensor]:
    """Return the indices of this rank's batches, which are the same in each way."""
    ranks = dist.get_world_size()
    epochs = ceil(recipe.steps / (count // (ranks * recipe.batch)))
    training = NetworkTraining(ranks=ranks, batch=recipe.batch, epochs=epochs, seed=seed)
    return batches(training, count, dist.get_rank())[: recipe.steps]
