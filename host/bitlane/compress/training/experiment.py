"""Train with a compressor, with each rank a thread of this process; for studies that need only the numbers."""

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

from ..chosen_bits import begin_sample, mean_bits, set_bits
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..collectives.transport import ThreadTransport, run_ranks_in_threads
from ..compressor import Compressor, Layout, has_widths, layout_of_shapes
from .images import Images
from .networks import network

OnStep = Callable[[int, int], None]  # called with completed steps and the total number
StepTimer = Callable[[float], tuple[float, float]]  # the seconds of a step with mean bits, and of its exchanges


@dataclass(frozen=True)
class NetworkTraining:
    """The settings of a network training.

    Attributes
    ----------
    network : str, default: "convolutional"
        A network of `networks.NETWORKS`.
    ranks : int, default: 4
        Number of ranks.
    batch : int, default: 32
        Images per rank and step.
    epochs : int, default: 1
        Passes over the images.
    rate : float, default: 0.05
        Initial learning rate of SGD; it decreases linearly to 0.
    momentum : float, default: 0.9
        Momentum of SGD.
    seed : int, default: 0
        Seed of the initial weights and of the order of the images.
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
    """The result of a training.

    Attributes
    ----------
    losses : float64 [steps]
        Mean cross-entropy over ranks of each step, in nats.
    accuracy : float
        Final share of correctly classified held-out images.
    bytes_sent : int
        Bytes sent by all ranks.
    volume : float
        `bytes_sent` divided by the bytes of ring all-reduce in float32.
    step_bits : float64 [steps]
        Bits per value of each step, as a mean over groups; 0 if the codec has no bit width.
    """

    losses: NDArray[np.float64]
    accuracy: float
    bytes_sent: int
    volume: float
    step_bits: NDArray[np.float64]


def train(
    training: NetworkTraining,
    compressor: Compressor | None,
    images: Images,
    on_step: OnStep | None = None,
    clock: StepTimer | None = None,
) -> TrainingHistory:
    """Train a network. All ranks start and end with identical weights.

    Parameters
    ----------
    training : NetworkTraining
        The settings.
    compressor : Compressor or None
        None averages in float32 and counts the bytes of ring all-reduce.
    images : Images
        The data.
    on_step : OnStep or None, default: None
        Called by rank 0 after each step.
    clock : StepTimer or None, default: None
        Step time for the bit policy, as on another link; None for the measured time.

    Returns
    -------
    TrainingHistory
        Losses, accuracy and bytes.
    """
    _, channels, side, _ = images.pixels.shape
    model = network(training.network, channels, side, training.seed)
    replicas = [model, *(deepcopy(model) for _ in range(training.ranks - 1))]

    def work(rank: ThreadTransport) -> tuple[list[float], list[float], int]:
        return _rank(training, compressor, images, replicas[rank.rank], rank, on_step, clock)

    ranks = run_ranks_in_threads(training.ranks, work, timeout=600)
    losses = np.mean([losses for losses, _, _ in ranks], axis=0)
    ring = 2 * (training.ranks - 1) * 4 * sum(parameter.numel() for parameter in model.parameters()) * len(losses)
    sent = sum(sent for _, _, sent in ranks) if compressor is not None else ring
    bits = np.array(ranks[0][1], np.float64)
    return TrainingHistory(losses, accuracy(model, images), sent, sent / ring if ring else 0.0, bits)


def accuracy(model: nn.Module, images: Images) -> float:
    """Return the share of correctly classified held-out images."""
    with torch.no_grad():
        predicted = [model(batch).argmax(1) for batch in images.held_out_pixels.split(500)]
    return float((torch.cat(predicted) == images.held_out_classes).double().mean())


def layout_of(parameters: Sequence[Tensor]) -> Layout:
    """Return the spans of parameters in the gradient vector: the last parameter first, as in `DDPCompression`."""
    return layout_of_shapes(parameter.shape for parameter in reversed(parameters))


def _rank(
    training: NetworkTraining,
    compressor: Compressor | None,
    images: Images,
    model: nn.Module,
    rank: ThreadTransport,
    on_step: OnStep | None,
    clock: StepTimer | None,
) -> tuple[list[float], list[float], int]:
    parameters = list(model.parameters())
    layout = layout_of(parameters)
    link = Link(rank, repr(compressor))
    average = GradientAverage(compressor, layout, link, AlphaBetaModel(), clock)
    optimizer = torch.optim.SGD(parameters, training.rate, training.momentum)
    own_batches = batches(training, len(images.pixels), rank.rank)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, len(own_batches))
    losses, bits = [], []
    for step, batch in enumerate(own_batches):
        optimizer.zero_grad()
        loss = cross_entropy(model(images.pixels[batch]), images.classes[batch])
        loss.backward()
        losses.append(loss.item())
        gradients = [_gradient_of(parameter) for parameter in reversed(parameters)]
        vector = torch.cat([gradient.flatten() for gradient in gradients])
        bits.append(average.bits)
        average.average(vector, step, losses[-1])
        for gradient, span in zip(gradients, layout, strict=True):
            gradient.copy_(span.view(vector))
        optimizer.step()
        schedule.step()
        if on_step is not None and rank.rank == 0:
            on_step(step + 1, len(own_batches))
    return losses, bits, rank.sent


class GradientAverage:
    """Averages the gradients of one rank with a compressor and its bit policy, or in float32.

    Parameters
    ----------
    compressor, clock
        As in `train`.
    layout : Layout
        The parameters.
    link : Link
        The connection to the other ranks.
    model : AlphaBetaModel
        The cost model that chooses the collective.
    """

    def __init__(
        self, compressor: Compressor | None, layout: Layout, link: Link, model: AlphaBetaModel, clock: StepTimer | None
    ):
        cpu, policy = torch.device("cpu"), None if compressor is None else compressor.policy
        self._reducer = None if compressor is None else compressor.reducer(layout, link, model, cpu)
        self._chooser = None if policy is None else policy.start()
        self._link = link
        self._clock = clock
        self._ended = time.perf_counter()

    @property
    def bits(self) -> float:
        """Bits per value of the next step, as a mean over groups; 0 if the codec has no bit width."""
        return 0 if self._reducer is None else mean_bits(self._reducer)

    @property
    def has_residual(self) -> bool:
        """Whether what was not sent is kept, and sent later."""
        return self._reducer is not None and self._reducer.residual() is not None

    @property
    def widths(self) -> NDArray[np.uint8] | None:
        """Bits per value of each group in the next step, uint8 [groups]; None if all have the same."""
        return self._reducer.widths if self._reducer is not None and has_widths(self._reducer) else None

    def average(self, vector: Tensor, step: int, loss: float) -> None:
        """Average the gradients of all ranks, float32 [n], in place; `loss` is that of this rank's batch."""
        if self._reducer is None:
            float_average(vector, self._link)
            return
        waited, sampler = self._link.seconds, begin_sample(self._chooser, self._reducer, vector)
        self._reducer.average(vector, step)
        if self._chooser is not None:
            start, self._ended = self._ended, time.perf_counter()
            measured = self._ended - start, self._link.seconds - waited
            seconds, exchange = measured if self._clock is None else self._clock(self.bits)
            sample = None if sampler is None else sampler(vector)
            observed = Observation(
                loss,
                seconds,
                lambda: float(vector.square().mean().sqrt()),
                exchange=exchange,
                sample=sample,
                computing=seconds - exchange,
            )
            self._chooser.after(observed, self._link.gather_numbers)
            set_bits(self._chooser, self._reducer)


def batches(training: NetworkTraining, count: int, rank: int) -> list[Tensor]:
    """Return the indices of a rank's batches: a new order of all images in each epoch, distributed over the ranks."""
    rng = np.random.default_rng(training.seed)
    each = training.ranks * training.batch
    steps = count // each
    orders = [rng.permutation(count)[: steps * each].reshape(steps, each) for _ in range(training.epochs)]
    mine = slice(rank * training.batch, (rank + 1) * training.batch)
    return [torch.from_numpy(batch[mine]) for order in orders for batch in order]


def float_average(vector: Tensor, link: Link) -> None:
    """Average vectors, float32 [n], in place, summed in the order of ranks."""
    bodies = link.all_gather(vector.view(torch.uint8), [4 * len(vector)] * link.size)
    vector.copy_(sum((body.view(torch.float32) for body in bodies), torch.zeros(())) / link.size)


def _gradient_of(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
