"""Training with a compressor, every rank a thread of this process: for studies, where only numbers matter."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bitlane.policies.protocol import Observation

from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..collectives.transport import ThreadTransport, run_ranks_in_threads
from ..compressor import Compressor, Layout, ParameterSpan, vector_length
from .images import Images
from .networks import network

OnStep = Callable[[int, int], None]  # steps done, and in all
StepTimer = Callable[[int], float]  # seconds of a step with so many bits


@dataclass(frozen=True)
class NetworkTraining:
    """How a network is trained.

    Attributes
    ----------
    network: a name of `networks.NETWORKS`. ranks, batch: each rank takes `batch` images a step.
    rate, momentum: of SGD; the rate falls linearly to 0.
    seed: of the first weights and of the order of the images.
    """

    network: str = "convolutional"
    ranks: int = 4
    batch: int = 32
    epochs: int = 1
    rate: float = 0.05
    momentum: float = 0.9
    seed: int = 0


@dataclass(frozen=True)
class TrainingHistory:
    """What a training did.

    losses: float64 [steps], mean cross-entropy of each step's batches, in nats. accuracy: of the held-out images.
    bytes_sent: by all ranks, in all. volume: of what ring all-reduce of float32 would have sent.
    bits: int64 [steps], bits a value of each step; 0 where that means nothing.
    """

    losses: NDArray[np.float64]
    accuracy: float
    bytes_sent: int
    volume: float
    bits: NDArray[np.int64]


def train(
    training: NetworkTraining,
    compressor: Compressor | None,
    images: Images,
    on_step: OnStep | None = None,
    clock: StepTimer | None = None,
) -> TrainingHistory:
    """Train with `compressor`, or without: then ranks average in float32, and send what ring all-reduce would.

    Ranks start from the same weights and end with the same, to the bit. on_step is called by rank 0. clock: what a bit
    policy is told in place of the time that passed, as on other links.
    """
    _, channels, side, _ = images.pixels.shape
    model = network(training.network, channels, side, training.seed)
    replicas = [model, *(deepcopy(model) for _ in range(training.ranks - 1))]

    def work(rank: ThreadTransport) -> tuple[list[float], list[int], int]:
        return _rank(training, compressor, images, replicas[rank.rank], rank, on_step, clock)

    ranks = run_ranks_in_threads(training.ranks, work, timeout=600)
    losses = np.mean([losses for losses, _, _ in ranks], axis=0)
    ring = 2 * (training.ranks - 1) * 4 * sum(parameter.numel() for parameter in model.parameters()) * len(losses)
    sent = sum(sent for _, _, sent in ranks) if compressor is not None else ring
    bits = np.array(ranks[0][1], np.int64)
    return TrainingHistory(losses, accuracy(model, images), sent, sent / ring if ring else 0.0, bits)


def accuracy(model: nn.Module, images: Images) -> float:
    """The share of the held-out images whose class the model gives."""
    with torch.no_grad():
        found = [model(part).argmax(1) for part in images.held_out_pixels.split(500)]
    return float((torch.cat(found) == images.held_out_classes).double().mean())


def layout_of(parameters: Sequence[Tensor]) -> Layout:
    """Places in the vector of all gradients: as `DDPCompression` has them, the last parameter first."""
    layout: list[ParameterSpan] = []
    for parameter in reversed(parameters):
        layout.append(ParameterSpan(vector_length(layout), tuple(parameter.shape)))
    return layout


def _rank(
    training: NetworkTraining,
    compressor: Compressor | None,
    images: Images,
    model: nn.Module,
    rank: ThreadTransport,
    on_step: OnStep | None,
    clock: StepTimer | None,
) -> tuple[list[float], list[int], int]:
    parameters = list(model.parameters())
    layout = layout_of(parameters)
    link = Link(rank, repr(compressor))
    average = _GradientAverage(compressor, layout, link, clock)
    optimizer = torch.optim.SGD(parameters, training.rate, training.momentum)
    own = batches(training, len(images.pixels), rank.rank)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, len(own))
    losses, bits = [], []
    for step, batch in enumerate(own):
        optimizer.zero_grad()
        loss = cross_entropy(model(images.pixels[batch]), images.classes[batch])
        loss.backward()
        losses.append(loss.item())
        vector = torch.cat([parameter.grad.flatten() for parameter in reversed(parameters)])
        bits.append(average.bits)
        average.make(vector, step, losses[-1])
        for parameter, place in zip(reversed(parameters), layout, strict=True):
            parameter.grad.copy_(vector[place.begin : place.end].view(place.shape))
        optimizer.step()
        schedule.step()
        if on_step is not None and rank.rank == 0:
            on_step(step + 1, len(own))
    return losses, bits, rank.sent


class _GradientAverage:
    """What makes a rank's gradient the average: a compressor and its bit policy, or float32."""

    def __init__(self, compressor: Compressor | None, layout: Layout, link: Link, clock: StepTimer | None):
        cpu, policy = torch.device("cpu"), None if compressor is None else compressor.policy
        self._reducer = None if compressor is None else compressor.reducer(layout, link, AlphaBetaModel(), cpu)
        self._chooser = None if policy is None else policy.start()
        self._link, self._clock, self._ended = link, clock, time.perf_counter()

    @property
    def bits(self) -> int:
        return 0 if self._reducer is None else self._reducer.bits

    def make(self, vector: Tensor, step: int, loss: float) -> None:
        if self._reducer is None:
            _float_average(vector, self._link)
            return
        self._reducer.average(vector, step)
        if self._chooser is not None:
            began, self._ended = self._ended, time.perf_counter()
            seconds = self._ended - began if self._clock is None else self._clock(self.bits)
            seen = Observation(loss, seconds, lambda: float(vector.square().mean().sqrt()))
            self._chooser.after(seen, self._link.gather_numbers)
            self._reducer.bits = self._chooser.bits


def batches(training: NetworkTraining, count: int, rank: int) -> list[Tensor]:
    """A rank's batches: epoch for epoch all images in a new order, ranks taking turns."""
    rng = np.random.default_rng(training.seed)
    each = training.ranks * training.batch
    steps = count // each
    orders = [rng.permutation(count)[: steps * each].reshape(steps, each) for _ in range(training.epochs)]
    mine = slice(rank * training.batch, (rank + 1) * training.batch)
    return [torch.from_numpy(batch[mine]) for order in orders for batch in order]


def _float_average(vector: Tensor, link: Link) -> None:
    bodies = link.all_gather(vector.view(torch.uint8), [4 * len(vector)] * link.size)
    vector.copy_(sum(body.view(torch.float32) for body in bodies) / link.size)
