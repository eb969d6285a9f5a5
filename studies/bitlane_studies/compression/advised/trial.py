"""One training with a candidate on one rank, on a real link: held-out loss, seconds, and bytes at the socket."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress.advice.candidates import parse_candidate
from bitlane.compress.collectives.sockets import bytes_at_rest
from bitlane.compress.ddp.attach import attach
from bitlane.compress.local.diloco import DiLoCo

from ..local.tasks import ModelTask
from ..outer.ways import in_bfloat16
from .settings import TASKS, AdvisedSetting

AUTO = "auto"  # the compressor that chooses by itself
WARM_UP = 20  # steps whose time does not count: they connect, measure and allocate
BLOCK = 10  # steps that are timed together


@dataclass(frozen=True)
class AdvisedTrial:
    """The result of a training on one rank.

    Attributes
    ----------
    loss : float
        Mean cross-entropy of the held-out examples, in nats.
    step_seconds : float
        Median over blocks of `BLOCK` steps, with `DiLoCo` of a round, behind `WARM_UP`: other programs change it less
        than a mean.
    step_bytes : float
        Bytes that the other ranks have acknowledged, by the kernel's count, in a mean step.
    """

    loss: float
    step_seconds: float
    step_bytes: float


def run_rank(
    report: Callable[[tuple[str, float, float]], None], setting: AdvisedSetting, names: Sequence[str], seed: int
) -> dict[str, AdvisedTrial]:
    """Train one rank with each candidate, or with `AUTO`, and report each result when it is there."""
    torch.set_num_threads(1)
    task, trials = TASKS[setting.task].load(), {}
    for name in names:
        trials[name] = trained(task, setting, name, seed)
        report((name, trials[name].loss, trials[name].step_seconds))
    return trials


def trained(task: ModelTask, setting: AdvisedSetting, name: str, seed: int) -> AdvisedTrial:
    """Train one rank with a candidate, or with `AUTO`."""
    model = task.build_model(seed)
    batches = setting.batches(len(task.inputs), seed)[: setting.steps, dist.get_rank()]
    optimizer = torch.optim.AdamW(model.parameters(), TASKS[setting.task].rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, setting.factor)
    dist.barrier()
    sent, ends = bytes_at_rest(), []
    with _averaged(model, name) as (called, after_step):
        for batch in batches:
            optimizer.zero_grad()
            task.loss(called, batch).backward()
            optimizer.step()
            schedule.step()
            after_step()
            ends.append(time.perf_counter())
        sent = bytes_at_rest() - sent
        dist.barrier()  # no rank closes its connections while another one counts
    return AdvisedTrial(task.held_out_loss(model), _step_seconds(ends, name), sent / setting.steps)


def _blocks(name: str) -> tuple[int, int]:
    """Return the steps of a block of a candidate, which end with a round, and the steps before the first one."""
    every = (None if name == AUTO else parse_candidate(name).every) or 1
    block = -(-BLOCK // every) * every
    return block, -(-WARM_UP // block) * block


def least_steps(name: str) -> int:
    """Return how many steps a training with a candidate needs, so that its time can be measured."""
    return sum(_blocks(name))


def _step_seconds(ends: Sequence[float], name: str) -> float:
    """Return the seconds of a step, from the time at the end of each."""
    block, before = _blocks(name)
    return float(np.median(np.diff(ends[before - 1 :: block]))) / block


@contextmanager
def _averaged(model: nn.Module, name: str) -> Iterator[tuple[nn.Module, Callable[[], None]]]:
    """Average as a candidate does; yields the module to call, and what to call after each step."""
    candidate = None if name == AUTO else parse_candidate(name)
    if candidate is not None and candidate.every is not None:
        assert candidate.compressor is not None
        with DiLoCo(model, compressor=candidate.compressor, every=candidate.every) as rounds:
            yield model, rounds.step
            rounds.finish()
        return
    ddp = DistributedDataParallel(model)
    compressor = AUTO if candidate is None else candidate.compressor
    if compressor is not None:
        with attach(ddp, compressor):
            yield ddp, lambda: None
        return
    if candidate is not None and candidate.dtype == torch.bfloat16:
        ddp.register_comm_hook(None, lambda _, bucket: in_bfloat16(bucket))  # DDP reads types of a function
    yield ddp, lambda: None
