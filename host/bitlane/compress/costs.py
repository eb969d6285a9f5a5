"""The cost of a step. Computing and coding are measured on this machine; sending follows from the cost model."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch
from torch.nn.functional import cross_entropy

from .codecs.wire import Header
from .collectives.cost_model import AlphaBetaModel
from .collectives.echo import EchoTransport
from .collectives.link import Link
from .compressor import Compressor, Layout, vector_length
from .training.networks import CLASSES, network

Timer = Callable[[], float]  # time.perf_counter; or time.process_time with one thread on a busy machine

WARMUP_STEPS = 2  # not counted: they allocate memory and compile code


@dataclass(frozen=True)
class StepCosts:
    """The cost of one step of a compressor, for one rank.

    Attributes
    ----------
    codec : float
        Seconds of encoding, adding and decoding.
    rounds : int
        Number of exchanges.
    bytes : int
        Bytes that determine the duration: in each round the larger of incoming and outgoing, summed over rounds.
    sent : int
        Bytes sent to other ranks.
    """

    codec: float
    rounds: int
    bytes: int
    sent: int

    def link_seconds(self, model: AlphaBetaModel) -> float:
        """Return the predicted seconds of sending on a link."""
        return self.rounds * model.latency + self.bytes / model.bandwidth


def measure_step_costs(
    compressor: Compressor | None,
    layout: Layout,
    ranks: int,
    model: AlphaBetaModel,
    clock: Timer = time.perf_counter,
    steps: int = 5,
) -> StepCosts:
    """Measure the cost of a step on one of `ranks` ranks.

    Parameters
    ----------
    compressor : Compressor or None
        None is ring all-reduce in float32, with no time for its additions.
    layout : Layout
        The parameters of the model.
    ranks : int
        Number of ranks.
    model : AlphaBetaModel
        The cost model that chooses the collective.
    clock : Timer, default: time.perf_counter
        The clock, in seconds.
    steps : int, default: 5
        Measured steps, whose median is returned.

    Returns
    -------
    StepCosts
        The cost of a step.
    """
    count = vector_length(layout)
    if compressor is None:
        sent = 2 * (ranks - 1) * 4 * count // ranks
        return StepCosts(0.0, 2 * (ranks - 1), sent, sent)
    transport = EchoTransport(ranks)
    link = Link(transport, "")
    reducer = compressor.reducer(layout, link, model, torch.device("cpu"))
    gradient = torch.randn(count, generator=torch.Generator().manual_seed(0))
    seconds = []
    for step in range(WARMUP_STEPS + steps):
        vector = gradient.clone()
        transport.sent = transport.rounds = transport.bytes = 0
        start = clock()
        link.handshake(Header(compressor.codec, reducer.bits, count, 0, step=step))
        reducer.average(vector, step)
        seconds.append(clock() - start)
    return StepCosts(median(seconds[WARMUP_STEPS:]), transport.rounds, transport.bytes, transport.sent)


def compute_seconds(
    name: str, channels: int, side: int, batch: int, clock: Timer = time.perf_counter, steps: int = 7
) -> float:
    """Measure the computing time of a training step, in seconds: forward pass, backward pass and SGD update.

    Parameters
    ----------
    name : str
        A network of `networks.NETWORKS`.
    channels, side : int
        Shape of an image: [channels, side, side].
    batch : int
        Images per step.
    clock : Timer, default: time.perf_counter
        The clock, in seconds.
    steps : int, default: 7
        Measured steps, whose median is returned.
    """
    model = network(name, channels, side, 0)
    optimizer = torch.optim.SGD(model.parameters(), 0.0, 0.9)
    pixels = torch.randn(batch, channels, side, side, generator=torch.Generator().manual_seed(0))
    classes = torch.arange(batch) % CLASSES

    seconds = []
    for _ in range(WARMUP_STEPS + steps):
        start = clock()
        optimizer.zero_grad()
        cross_entropy(model(pixels), classes).backward()
        optimizer.step()
        seconds.append(clock() - start)
    return median(seconds[WARMUP_STEPS:])
