"""One training with a candidate on one rank, on a real link: held-out loss, seconds, and bytes at the socket."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

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


@dataclass(frozen=True)
class AdvisedTrial:
    """The result of a training on one rank.

    Attributes
    ----------
    loss : float
        Mean cross-entropy of the held-out examples, in nats.
    step_seconds : float
        Mean over the steps behind `WARM_UP`; rounds of `DiLoCo` are in it.
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
    sent, start = bytes_at_rest(), 0.0
    with _averaged(model, name) as (called, after_step):
        for step, batch in enumerate(batches):
            if step == WARM_UP:
                start = time.perf_counter()
            optimizer.zero_grad()
            task.loss(called, batch).backward()
            optimizer.step()
            schedule.step()
            after_step()
        seconds = time.perf_counter() - start
        sent = bytes_at_rest() - sent
        dist.barrier()  # no rank closes its connections while another one counts
    return AdvisedTrial(task.held_out_loss(model), seconds / (setting.steps - WARM_UP), sent / setting.steps)


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
