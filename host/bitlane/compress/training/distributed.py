"""Training on several processes of this machine, with DDP and a compressor: what `bitlane train-ddp` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from ..collectives.emulated_links import EmulatedLinks, emulate_links, parse_link
from ..collectives.launch import Report, launch
from ..ddp.hook import DDPCompression
from ..ddp.stats import Traffic
from ..registry import parse_compressor
from . import checkpoints
from .experiment import NetworkTraining, accuracy, batches
from .images import load_images
from .networks import network

MEGABYTES = 25  # of a bucket, as DDP has it by default


@dataclass(frozen=True)
class DDPJob:
    """A training, as all ranks are given it.

    Attributes
    ----------
    data: a name of `images.NAMES`. compress: a compressor as `registry.named` takes it.
    checkpoint: a folder to write checkpoints to, every `every` steps and at the end; None for none.
    resume: a checkpoint of the same training to go on from.
    link: words for `links.parse_link`, to train over links as slow as that; None for the machine's own.
    """

    training: NetworkTraining
    data: str
    compress: str
    checkpoint: Path | None = None
    every: int = 100
    resume: Path | None = None
    link: str | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """What a training that goes on must have in common with the one that began."""
        return {**asdict(self.training), "data": self.data, "compress": self.compress}


@dataclass(frozen=True)
class RankResult:
    """What a training did, as a rank saw it.

    losses: mean cross-entropy over ranks of each step since it began or went on, nats. begun: the step it went on from.
    accuracy: of the held-out images, in the end. moved: this rank's, all steps together.
    """

    losses: list[float]
    first_step: int
    accuracy: float
    traffic: Traffic


def train_on_processes(job: DDPJob, on_step: Callable[[int, int], None]) -> list[RankResult]:
    """Train; every rank's outcome. BitlaneError where one failed. `on_step` is called with steps done, and in all."""
    ranks = job.training.ranks
    if job.link is None:
        return launch(train_rank, ranks, job, None, on_report=lambda rank, told: on_step(*told))
    with emulate_links(ranks, parse_link(job.link)) as links:
        return launch(train_rank, ranks, job, links, enter=links.enter, on_report=lambda rank, told: on_step(*told))


def train_rank(report: Report, job: DDPJob, links: EmulatedLinks | None) -> RankResult:
    """A rank's share; `report` is given steps done and in all, by rank 0."""
    rank, training, images = dist.get_rank(), job.training, load_images(job.data)
    _, channels, side, _ = images.pixels.shape
    model = network(training.network, channels, side, training.seed)
    ddp = DistributedDataParallel(model, bucket_cap_mb=MEGABYTES)
    compression = DDPCompression(parse_compressor(job.compress), link_model=parse_link(job.link) if job.link else None)
    if links is not None:
        compression.transport = links.throttle(compression.transport)
    ddp.register_comm_hook(compression, DDPCompression.hook)
    optimizer = torch.optim.SGD(model.parameters(), training.rate, training.momentum)
    todo = batches(training, len(images.pixels), rank)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, len(todo))
    whole = {"model": model, "optimizer": optimizer, "schedule": schedule}
    begun = _resume(job.resume, whole, compression, rank) if job.resume is not None else 0
    losses = []
    for step in range(begun, len(todo)):
        optimizer.zero_grad()
        loss = cross_entropy(ddp(images.pixels[todo[step]]), images.classes[todo[step]])
        losses.append(loss.item())
        compression.observe(losses[-1])
        loss.backward()
        optimizer.step()
        schedule.step()
        if job.checkpoint is not None and ((step + 1) % job.every == 0 or step + 1 == len(todo)):
            states = {name: each.state_dict() for name, each in whole.items()}
            shared = {"step": step + 1, "settings": job.settings, **states}
            checkpoints.save(job.checkpoint, step + 1, compression.state_dict(), shared)
        if rank == 0:
            report((step + 1 - begun, len(todo) - begun))
    return RankResult(_means(losses), begun, accuracy(model, images), compression.stats.total)


def _resume(checkpoint: Path, whole: dict[str, Any], compression: DDPCompression, rank: int) -> int:
    shared = checkpoints.shared(checkpoint)
    for name, each in whole.items():
        each.load_state_dict(shared[name])
    compression.load_state_dict(checkpoints.own(checkpoint, rank))
    return int(shared["step"])


def _means(losses: Sequence[float]) -> list[float]:
    total = torch.tensor(losses, dtype=torch.float64)
    dist.all_reduce(total)
    means: list[float] = (total / dist.get_world_size()).tolist()
    return means
