"""One training on one rank: held-out loss, and bytes at the socket from before the start to after the finish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, pi

import torch
import torch.distributed as dist

from bitlane.compress.collectives.sockets import bytes_at_rest
from bitlane.compress.seeded import seeded
from bitlane.errors import BitlaneError

from ..local.tasks import ModelTask
from ..local.text import load_text, windows
from ..local.transformer import ByteTransformer
from .ways import RankAverage, Rates, Way

HELD_OUT = 32_768  # bytes
WARM_UP = 0.1  # of the steps


@dataclass(frozen=True)
class Size:
    """The size of a training.

    Attributes
    ----------
    width, depth : int
        Of the transformer.
    length : int
        Bytes of a window.
    batch : int
        Windows for each rank and step.
    steps : int
        Inner steps.
    """

    width: int = 32
    depth: int = 2
    length: int = 32
    batch: int = 16
    steps: int = 1200

    def task(self) -> ModelTask:
        """Return the text in windows, and the transformer that predicts next bytes."""
        text = load_text(held_out_bytes=HELD_OUT)
        pairs = (windows(part, self.length) for part in (text.training, text.held_out))
        (inputs, targets), (held_out_inputs, held_out_targets) = pairs
        return ModelTask(self._model, inputs, targets, held_out_inputs, held_out_targets)

    def _model(self, seed: int) -> ByteTransformer:
        with seeded(seed):
            return ByteTransformer(self.width, self.depth, self.length)

    def factor(self, step: int) -> float:
        """Return the share of the largest rate in a step, from 0: a linear rise, then a cosine to 0."""
        rise = max(1, round(WARM_UP * self.steps))
        return (step + 1) / rise if step < rise else (1 + cos(pi * (step - rise) / (self.steps - rise))) / 2


LONG = Size(steps=12_240)


@dataclass(frozen=True)
class OuterJob:
    """A training: with which inner optimizer, way, rates and seed."""

    inner: str
    way: Way
    rates: Rates
    seed: int

    def check(self, size: Size) -> None:
        """Raise BitlaneError if the training would end within a round."""
        if size.steps % self.way.every:
            raise BitlaneError(
                f"--steps must be a multiple of {self.way.every}, the steps of a round of {self.way.name}; "
                f"got {size.steps}"
            )


@dataclass(frozen=True)
class OuterTrial:
    """The result of a training on one rank.

    Attributes
    ----------
    loss : float
        Mean cross-entropy of the held-out bytes, in nats.
    socket_bytes : int
        Bytes that the other ranks have acknowledged, by the kernel's count, with the start.
    declared_bytes : int
        Bytes of the averages.
    """

    loss: float
    socket_bytes: int
    declared_bytes: int


def run_rank(report: Callable[[tuple[int, float]], None], size: Size, jobs: Sequence[OuterJob]) -> list[OuterTrial]:
    """Run all trainings on one rank; report the number and the loss of each."""
    torch.set_num_threads(1)
    task, trials = size.task(), []
    for number, job in enumerate(jobs):
        trials.append(_train(task, size, job))
        report((number, trials[-1].loss))
    return trials


def _train(task: ModelTask, size: Size, job: OuterJob) -> OuterTrial:
    model = task.build_model(job.seed)
    generator = torch.Generator().manual_seed(1000 * job.seed + dist.get_rank())
    dist.barrier()
    before = bytes_at_rest()
    averaging = RankAverage(job.way, job.rates, model)
    optimizers, scheduled = averaging.optimizers(job.inner)
    schedules = [torch.optim.lr_scheduler.LambdaLR(each, size.factor) for each in scheduled]
    try:
        for _ in range(size.steps):
            batch = torch.randint(len(task.inputs), (size.batch,), generator=generator)
            model.zero_grad()
            task.loss(averaging.called, batch).backward()
            for optimizer in optimizers:
                optimizer.step()
            for schedule in schedules:
                schedule.step()
            averaging.step()
        averaging.finish()
        sent = bytes_at_rest() - before
        declared = averaging.declared_bytes(size.steps)
        dist.barrier()  # no rank closes its connections while another one counts
    finally:
        averaging.close()
    return OuterTrial(task.held_out_loss(model), sent, declared)
