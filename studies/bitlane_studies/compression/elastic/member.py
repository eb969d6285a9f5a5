"""A member of the study, as a process: it trains, reports each round, and dies when it is told to."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor

from bitlane.compress.ddp.warm_up import warm_up
from bitlane.compress.elastic.diloco import ElasticDiLoCo
from bitlane.compress.elastic.shares import DataShare
from bitlane.compress.local.diloco import FOUR_BITS
from bitlane.errors import DataError

from ..local.tasks import ModelTask
from ..outer.inner import adamw
from ..outer.rates import TUNED
from ..outer.trial import Size
from ..outer.ways import ROUNDS

SIZE = Size(batch=8)
RATES = TUNED["adamw", ROUNDS]


@dataclass(frozen=True)
class ElasticJob:
    """What all members of a run do.

    Attributes
    ----------
    rounds : int
        Rounds of the training.
    every : int
        Inner steps of a round.
    step_seconds : float
        Least time of an inner step: that of a device of its own, which members on one machine do not have.
    seed : int
        Of the first weights, the data and the events.
    """

    rounds: int = 150
    every: int = 10
    step_seconds: float = 0.12
    seed: int = 0

    @property
    def steps(self) -> int:
        """Inner steps of the training."""
        return self.rounds * self.every


@dataclass(frozen=True)
class RoundReport:
    """A round that counted, as a member has seen it.

    Attributes
    ----------
    step : int
        Inner steps of the training.
    members : tuple of str
    digest : str
        Of the global parameters and the outer optimizer.
    time : float
        Seconds of the machine's monotonic clock.
    """

    step: int
    members: tuple[str, ...]
    digest: str
    time: float


@dataclass(frozen=True)
class MemberResult:
    """The end of a member that has made all steps."""

    loss: float
    repeated: int
    generations: int
    seconds: float  # in formations and repeated rounds


@cache
def text_task() -> ModelTask:
    """Return the text and the transformer of the study of inner optimizers."""
    return SIZE.task()


def run_member(connection: Connection, enter: Callable[[], None], address: str, name: str, job: ElasticJob) -> None:
    """Train until the last step; send reports, and obey orders to die in an exchange of the next round."""
    enter()
    torch.set_num_threads(1)
    task = text_task()
    _train_once(task, job)
    model = task.build_model(job.seed)
    optimizer = adamw(model, RATES.inner)[0]
    share = DataShare(len(task.inputs), SIZE.batch, job.every, job.seed)
    schedule = schedule_of(job)
    settings: dict[str, Any] = {"name": name, "inner_optimizers": [optimizer]}
    diloco = DyingDiLoCo(model, address, outer_optimizer, FOUR_BITS, job.every, **settings)
    with diloco:
        while diloco.inner_steps < job.steps:
            begin, counted = time.monotonic(), diloco.stats.rounds
            for group in optimizer.param_groups:
                group["lr"] = RATES.inner * schedule.factor(diloco.inner_steps)
            model.zero_grad()
            task.loss(model, share.batch_rows(diloco.place)).backward()
            optimizer.step()
            time.sleep(max(0.0, begin + job.step_seconds - time.monotonic()))
            if connection.poll():
                diloco.exchanges_left = connection.recv()
            diloco.step()
            if diloco.stats.rounds > counted:
                seen = RoundReport(diloco.inner_steps, diloco.round_members, diloco.digest(), time.monotonic())
                connection.send(seen)
        diloco.finish()
        stats = diloco.stats
        connection.send(MemberResult(task.held_out_loss(model), stats.repeated, stats.generations, stats.seconds))


def _train_once(task: ModelTask, job: ElasticJob) -> None:
    """Make a step with another model: the first one of a process takes longer, and the others would wait for it."""
    model = task.build_model(job.seed)
    optimizer = adamw(model, RATES.inner)[0]
    task.loss(model, torch.arange(SIZE.batch)).backward()
    optimizer.step()


def schedule_of(job: ElasticJob) -> Size:
    """Return the size of the training, whose `factor` is the schedule of the inner rate."""
    return Size(steps=job.steps)


def outer_optimizer(parameters: list[Tensor]) -> torch.optim.Optimizer:
    """Return the outer optimizer of all members."""
    return torch.optim.SGD(parameters, RATES.outer, RATES.momentum, nesterov=RATES.momentum > 0)


class DyingDiLoCo(ElasticDiLoCo):
    """An `ElasticDiLoCo` whose process is killed in a round, when `exchanges_left` is set."""

    exchanges_left: int | None = None

    def _average(self, number: int, due: int) -> DataError | None:
        transport = self._membership.transport
        if self.exchanges_left is not None and transport is not None:
            self._count_down(transport)
        return super()._average(number, due)

    def _count_down(self, transport: Any) -> None:
        real = transport.exchange

        def exchange(buffers: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
            if not self.exchanges_left:
                os.kill(os.getpid(), signal.SIGKILL)
            self.exchanges_left = (self.exchanges_left or 0) - 1
            received: list[Tensor] = real(buffers, lengths)
            return received

        transport.exchange = exchange


if __name__ != "__main__":  # each member is a fork of a process that has this
    torch.set_num_threads(1)
    warm_up(FOUR_BITS, 2)
    outer_optimizer([torch.zeros(1)])  # the first optimizer of a process imports torch's compiler: seconds
