"""Train with DDP and a compressor on several processes of this machine."""

from __future__ import annotations

import logging
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
from ..ddp.attach import attach
from ..ddp.hook import DDPCompression
from ..ddp.stats import StepTraffic
from ..registry import parse_compressor
from . import checkpoints
from .experiment import NetworkTraining, accuracy, batches
from .images import load_images
from .networks import network

LOG = logging.getLogger(__name__)
BUCKET_MB = 25  # DDP's default


@dataclass(frozen=True)
class DDPJob:
    """The settings of a training on several processes.

    Attributes
    ----------
    training : NetworkTraining
        Network, ranks and optimizer.
    data : str
        A data set of `images.NAMES`.
    compress : str
        A compressor as `parse_compressor` takes it.
    checkpoint : Path or None, default: None
        Folder for checkpoints, written every `checkpoint_every` steps and at the end; None for no checkpoints.
    checkpoint_every : int, default: 100
        Steps between checkpoints.
    resume : Path or None, default: None
        Folder of the checkpoint from which the training continues.
    link : str or None, default: None
        An emulated link as `parse_link` takes it; None for the network of the machine.
    """

    training: NetworkTraining
    data: str
    compress: str
    checkpoint: Path | None = None
    checkpoint_every: int = 100
    resume: Path | None = None
    link: str | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that a resumed training must share with the original one."""
        return {**asdict(self.training), "data": self.data, "compress": self.compress}


@dataclass(frozen=True)
class RankResult:
    """The result of a training on one rank.

    Attributes
    ----------
    losses : list of float
        Mean cross-entropy over ranks of each step since the start or the resumption, in nats.
    first_step : int
        The step from which the training resumed; 0 otherwise.
    accuracy : float
        Final share of correctly classified held-out images.
    traffic : StepTraffic
        Traffic of this rank over all steps.
    """

    losses: list[float]
    first_step: int
    accuracy: float
    traffic: StepTraffic


def train_on_processes(job: DDPJob, on_step: Callable[[int, int], None]) -> list[RankResult]:
    """Train on one process per rank.

    Parameters
    ----------
    job : DDPJob
        The settings.
    on_step : callable
        Called with the number of completed steps and the total number.

    Returns
    -------
    list of RankResult
        The result of each rank, in order.

    Raises
    ------
    BitlaneError
        If a rank failed.
    """
    ranks = job.training.ranks
    LOG.info("training %s on %s with %d processes, %s", job.training.network, job.data, ranks, job.compress)
    if job.link is None:
        return launch(train_rank, ranks, job, None, on_report=lambda rank, progress: on_step(*progress))
    with emulate_links(ranks, parse_link(job.link)) as links:
        LOG.info("emulated links of %s: %s", job.link, links.description)
        return launch(
            train_rank, ranks, job, links, enter=links.enter, on_report=lambda rank, progress: on_step(*progress)
        )


def train_rank(report: Report, job: DDPJob, links: EmulatedLinks | None) -> RankResult:
    """Train one rank; rank 0 reports the number of completed steps and the total number."""
    rank, training, images = dist.get_rank(), job.training, load_images(job.data)
    _, channels, side, _ = images.pixels.shape
    model = network(training.network, channels, side, training.seed)
    ddp = DistributedDataParallel(model, bucket_cap_mb=BUCKET_MB)
    compression = attach(ddp, parse_compressor(job.compress), link_model=parse_link(job.link) if job.link else None)
    if links is not None:
        compression.transport = links.throttle(compression.transport)
    optimizer = torch.optim.SGD(model.parameters(), training.rate, training.momentum)
    own_batches = batches(training, len(images.pixels), rank)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, len(own_batches))
    stateful: dict[str, Any] = {"model": model, "optimizer": optimizer, "schedule": schedule}
    first_step = _resume(job.resume, stateful, compression, rank) if job.resume is not None else 0
    losses = []
    for step in range(first_step, len(own_batches)):
        optimizer.zero_grad()
        loss = cross_entropy(ddp(images.pixels[own_batches[step]]), images.classes[own_batches[step]])
        losses.append(loss.item())
        compression.observe(losses[-1])
        loss.backward()
        optimizer.step()
        schedule.step()
        if job.checkpoint is not None and ((step + 1) % job.checkpoint_every == 0 or step + 1 == len(own_batches)):
            states = {name: each.state_dict() for name, each in stateful.items()}
            shared = {"step": step + 1, "settings": job.settings, **states}
            checkpoints.save(job.checkpoint, step + 1, compression.state_dict(), shared)
        if rank == 0:
            report((step + 1 - first_step, len(own_batches) - first_step))
    return RankResult(_means(losses), first_step, accuracy(model, images), compression.stats.total)


def _resume(checkpoint: Path, stateful: dict[str, Any], compression: DDPCompression, rank: int) -> int:
    shared = checkpoints.load_shared(checkpoint)
    for name, each in stateful.items():
        each.load_state_dict(shared[name])
    compression.load_state_dict(checkpoints.load_rank(checkpoint, rank))
    return int(shared["step"])


def _means(losses: Sequence[float]) -> list[float]:
    total = torch.tensor(losses, dtype=torch.float64)
    dist.all_reduce(total)
    means: list[float] = (total / dist.get_world_size()).tolist()
    return means
