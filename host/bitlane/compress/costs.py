"""The cost of a step. Computing and coding are measured on this machine; sending follows from the cost model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
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
class ComputeCosts:
    """The computing time of a training step.

    Attributes
    ----------
    forward : float
        Seconds of the forward pass and the update of the weights.
    backward : float
        Seconds of the backward pass.
    """

    forward: float
    backward: float

    @classmethod
    def of(cls, seconds: float) -> ComputeCosts:
        """Return the costs of a step of which only the sum is known: a backward pass computes twice a forward pass."""
        return cls(seconds / 3, 2 * seconds / 3)

    @property
    def total(self) -> float:
        """Seconds of a step without an exchange."""
        return self.forward + self.backward


@dataclass(frozen=True)
class StepCosts:
    """The cost of one step of a compressor, for one rank.

    Attributes
    ----------
    codec : float
        Seconds of collecting the gradient, encoding, adding, decoding and returning the average.
    rounds : int
        Number of exchanges.
    bytes : int
        Bytes that determine the duration: in each round the larger of incoming and outgoing, summed over rounds.
    sent : int
        Bytes sent to other ranks.
    state : int
        Bytes that a rank keeps between steps.
    """

    codec: float
    rounds: int
    bytes: int
    sent: int
    state: int = 0

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
    """Measure the cost of a step on one of `ranks` ranks, with one thread of torch, as `torchrun` starts a rank.

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
    buckets, vector = torch.empty(count), torch.empty(count)
    seconds = []
    with _one_thread():
        for step in range(WARMUP_STEPS + steps):
            transport.sent = transport.rounds = transport.bytes = 0
            buckets.copy_(gradient)
            start = clock()
            vector.copy_(buckets)
            torch.aminmax(vector)  # as the hook looks for values that are not finite
            link.handshake(Header(compressor.codec, reducer.bits, count, 0, step=step))
            reducer.average(vector, step)
            buckets.copy_(vector)
            seconds.append(clock() - start)
    counts = (transport.rounds, transport.bytes, transport.sent)
    return StepCosts(median(seconds[WARMUP_STEPS:]), *counts, state_bytes(reducer))


def state_bytes(owner: Any) -> int:
    """Return the bytes of all tensors and arrays that an object holds, also in its attributes; each memory once."""
    found: dict[int, int] = {}
    seen: set[int] = set()
    waiting = [owner]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, Tensor):
            storage = each.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
        elif isinstance(each, np.ndarray):
            found[each.ctypes.data] = max(each.nbytes, found.get(each.ctypes.data, 0))
        elif isinstance(each, Mapping):
            waiting.extend(each.values())
        elif isinstance(each, list | tuple):
            waiting.extend(each)
        elif type(each).__module__.startswith("bitlane.compress"):
            waiting.extend(vars(each).values())
    return sum(found.values())


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def compute_costs(
    name: str, channels: int, side: int, batch: int, clock: Timer = time.perf_counter, steps: int = 7
) -> ComputeCosts:
    """Measure the computing time of a network of `networks.NETWORKS`.

    Parameters
    ----------
    name : str
        The network.
    channels, side : int
        Shape of an image: [channels, side, side].
    batch : int
        Images per step.
    clock : Timer, default: time.perf_counter
        The clock, in seconds.
    steps : int, default: 7
        Measured steps, whose medians are returned.
    """
    model = network(name, channels, side, 0)
    pixels = torch.randn(batch, channels, side, side, generator=torch.Generator().manual_seed(0))
    classes = torch.arange(batch) % CLASSES
    return measure_compute(model, lambda: cross_entropy(model(pixels), classes), clock, steps)


def measure_compute(
    module: nn.Module, loss: Callable[[], Tensor], clock: Timer = time.perf_counter, steps: int = 7
) -> ComputeCosts:
    """Measure the computing time of a training step: forward pass, backward pass and SGD update with a rate of 0.

    Parameters
    ----------
    module : torch.nn.Module
        The model. Its gradients are set to zero.
    loss : callable
        Computes the loss of a batch, float32 [].
    clock, steps
        As in `compute_costs`.

    Examples
    --------
    >>> from bitlane.compress.costs import measure_compute
    >>> costs = measure_compute(model, lambda: cross_entropy(model(x), y))  # doctest: +SKIP
    """
    optimizer = torch.optim.SGD(module.parameters(), 0.0, 0.9)
    forward, backward = [], []
    for _ in range(WARMUP_STEPS + steps):
        optimizer.zero_grad()
        start = clock()
        value = loss()
        middle = clock()
        value.backward()
        end = clock()
        optimizer.step()
        forward.append(middle - start + clock() - end)
        backward.append(end - middle)
    optimizer.zero_grad()
    return ComputeCosts(median(forward[WARMUP_STEPS:]), median(backward[WARMUP_STEPS:]))
