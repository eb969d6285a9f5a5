"""The cost of a step. Computing and coding are measured on this machine; sending follows from the cost model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bitlane.support.one_thread import one_thread

from .collectives.cost_model import AlphaBetaModel
from .collectives.echo import EchoTransport
from .collectives.launch import Report, launch
from .collectives.transport import FRAME, Transport
from .compressor import Compressor, Layout, vector_length
from .ddp.overlap import Overlap, OverlappedStep, StepEnd, in_segments
from .ddp.stats import Stats
from .ddp.steps import StepRunner
from .memory import PeakMemory, return_freed_memory, state_bytes
from .step_costs import ComputeCosts, StepCosts
from .training.networks import CLASSES, network

Timer = Callable[[], float]  # time.perf_counter; or time.process_time with one thread on a busy machine

WARMUP_STEPS = 2  # not counted: they allocate memory and compile code
BUCKET_BYTES = 25 << 20  # DDP's default


def ring_costs(layout: Layout, ranks: int, dtype: torch.dtype = torch.float32) -> StepCosts:
    """Return the cost of a step of DDP: ring all-reduce, in buckets of 25 MiB, with no time for its additions.

    Parameters
    ----------
    layout, ranks
        As in `measure_step_costs`.
    dtype : torch.dtype, default: torch.float32
        The type that is sent. With bfloat16, as with PyTorch's `bf16_compress_hook`, coding is the measured time of
        the two conversions.
    """
    count, codec = vector_length(layout), 0.0
    if dtype != torch.float32:
        vector = torch.zeros(count)
        with one_thread():
            codec = median(_seconds_of(lambda: vector.copy_(vector.to(dtype))) for _ in range(3))
    sent = 2 * (ranks - 1) * dtype.itemsize * count // ranks
    bucket_count = max(1, round(4 * count / BUCKET_BYTES))
    return StepCosts(codec, 2 * (ranks - 1), sent, sent, 0, (1 / bucket_count,) * bucket_count)


def _seconds_of(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure_step_costs(
    compressor: Compressor,
    layout: Layout,
    ranks: int,
    model: AlphaBetaModel,
    clock: Timer = time.perf_counter,
    steps: int = 5,
    overlap: Overlap = "auto",
    gradients: Sequence[Tensor] = (),
) -> StepCosts:
    """Measure the cost of a step on one of `ranks` ranks, with one thread of torch, as `torchrun` starts a rank.

    Parameters
    ----------
    compressor : Compressor
        The settings.
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
    overlap : bool or "auto", default: "auto"
        As in `attach`; False as in a round of `DiLoCo`.
    gradients : sequence of Tensor, float32 [n], default: ()
        What is averaged, by turns; none for normally distributed values. The bytes of the last step are returned, which
        depend on the values if a codec has entropy coding.

    Returns
    -------
    StepCosts
        The cost of a step.
    """
    count = vector_length(layout)
    gradients = gradients or [torch.randn(count, generator=torch.Generator().manual_seed(0))]
    buckets, vector = torch.empty(count), torch.empty(count)
    transport = EchoTransport(ranks)
    runner = _rank(compressor, transport, layout, model, overlap)
    seconds = []
    with one_thread():
        for step in range(WARMUP_STEPS + steps):
            transport.reset_counts()
            buckets.copy_(gradients[step % len(gradients)])
            start = clock()
            _average(runner, vector, buckets)
            seconds.append(clock() - start)
    shares = tuple((each.end - each.begin) / count for each in runner.segments) or (1.0,)
    frames = FRAME * transport.messages
    counts = (transport.rounds, transport.bytes + frames, transport.sent + frames)
    return StepCosts(median(seconds[WARMUP_STEPS:]), *counts, state_bytes(runner), shares)


def measure_peaks(
    compressors: Sequence[Compressor | None], layout: Layout, ranks: int, model: AlphaBetaModel
) -> list[int | None]:
    """Measure the memory that a rank needs at most with each compressor, in a process of its own.

    Parameters
    ----------
    compressors, layout, ranks, model
        As in `measure_step_costs`.

    Returns
    -------
    list of int or None
        Bytes beside those of DDP: between steps, and in a step at most. None if the system does not report them; 0
        without a compressor.
    """
    peaks: list[int | None] = launch(_peaks, 1, compressors, layout, ranks, model)[0]
    return peaks


def _peaks(
    report: Report, compressors: Sequence[Compressor | None], layout: Layout, ranks: int, model: AlphaBetaModel
) -> list[int | None]:
    return_freed_memory()
    return [0 if each is None else _peak(each, layout, ranks, model) for each in compressors]


def _peak(compressor: Compressor, layout: Layout, ranks: int, model: AlphaBetaModel) -> int | None:
    buckets, vector = torch.randn(vector_length(layout)), torch.empty(vector_length(layout))
    runner = _rank(compressor, EchoTransport(ranks), layout, model, "auto")
    _average(runner, vector, buckets)  # compiles code
    peak = PeakMemory()
    _average(runner, vector, buckets)
    step = peak.bytes
    return None if step is None else step + state_bytes(runner) + vector.nbytes


def _rank(
    compressor: Compressor, transport: Transport, layout: Layout, model: AlphaBetaModel, overlap: Overlap
) -> StepRunner:
    averaged = in_segments(compressor, overlap, transport.size)
    return StepRunner(averaged, transport, model, layout, torch.device("cpu"), Stats())


def _average(runner: StepRunner, vector: Tensor, buckets: Tensor) -> None:
    """Make a step as under DDP, whose buckets are complete from the start."""

    def collect() -> Tensor:
        return vector.copy_(buckets)

    def deliver(average: Tensor) -> None:
        buckets.copy_(average)

    if runner.overlaps:
        step = OverlappedStep(runner, vector, 1, StepEnd(collect, deliver, lambda: None))
        step.add(lambda: [(span, span.view(buckets)) for span in runner.layout])
        step.end()
        step.wait()
    else:
        runner.average(collect, deliver=deliver)


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
