"""What a step costs: computing, coding, sending. Coding is measured on this machine, sending follows from the link."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from .codecs.wire import Header
from .collectives.cost_model import AlphaBetaModel
from .collectives.link import Link
from .compressor import Compressor, Layout, vector_length
from .training.networks import CLASSES, network

Timer = Callable[[], float]  # time.perf_counter, or time.process_time on a machine with other work, and one thread

WARM = 2  # steps that are not counted: memory is allocated, and code compiled


@dataclass(frozen=True)
class StepCosts:
    """Of a compressor's step, for one rank.

    Attributes
    ----------
    codec: seconds of coding, adding and decoding.
    rounds: exchanges. bytes: the most that goes in or out in each, summed up. sent: bytes to other ranks.
    """

    codec: float
    rounds: int
    bytes: int
    sent: int

    def link_seconds(self, model: AlphaBetaModel) -> float:
        """Of sending, on links like `model`."""
        return self.rounds * model.latency + self.bytes / model.bandwidth


class EchoTransport:
    """A rank without others: whatever it hears is what it would say in their place. For time and bytes, not values."""

    def __init__(self, size: int):
        self.rank, self.size, self.device, self.sent = 0, size, torch.device("cpu"), 0
        self.rounds = self.bytes = 0

    def exchange(self, parts: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        outgoing = sum(map(len, parts[1:]))
        self.sent += outgoing
        self.rounds += 1
        self.bytes += max(outgoing, sum(lengths[1:]))
        own = parts[0]
        return [own if len(own) == length else torch.zeros(length, dtype=torch.uint8) for length in lengths]

    def abort(self) -> None:
        """Nobody waits for it."""


def measure_step_costs(
    compressor: Compressor | None,
    layout: Layout,
    ranks: int,
    model: AlphaBetaModel,
    clock: Timer = time.perf_counter,
    steps: int = 5,
) -> StepCosts:
    """Of one of `ranks` ranks, as links like `model` have it average; the median of some steps.

    None: the average in float32 by a ring, whose additions are not counted.
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
    for step in range(WARM + steps):
        vector = gradient.clone()
        transport.sent = transport.rounds = transport.bytes = 0
        began = clock()
        link.handshake(Header(compressor.codec, reducer.bits, count, 0, step=step))
        reducer.average(vector, step)
        seconds.append(clock() - began)
    return StepCosts(median(seconds[WARM:]), transport.rounds, transport.bytes, transport.sent)


def compute_seconds(
    name: str, channels: int, side: int, batch: int, clock: Timer = time.perf_counter, steps: int = 7
) -> float:
    """Of a forward and a backward pass and a step of SGD with a network of `networks.NETWORKS`; the median."""
    model = network(name, channels, side, 0)
    optimizer = torch.optim.SGD(model.parameters(), 0.0, 0.9)
    pixels = torch.randn(batch, channels, side, side, generator=torch.Generator().manual_seed(0))
    classes = torch.arange(batch) % CLASSES

    seconds = []
    for _ in range(WARM + steps):
        began = clock()
        optimizer.zero_grad()
        cross_entropy(model(pixels), classes).backward()
        optimizer.step()
        seconds.append(clock() - began)
    return median(seconds[WARM:])
