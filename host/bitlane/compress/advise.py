"""Which compressor a model and a link call for, or none: `bitlane advise`.

A step is computing, coding and sending. Coding is measured on this machine; sending is what the link's model says of
the rounds and bytes that the compressor really has. Nothing overlaps: as `hook.py` averages, after the backward pass.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import torch

from bitlane.errors import DataError
from bitlane.support.text import align_columns

from .collectives.cost_model import AlphaBetaModel
from .collectives.launch import Report, launch
from .collectives.transport import TorchTransport, Transport
from .compressor import Layout, ParameterSpan
from .costs import StepCosts, compute_seconds, measure_step_costs
from .registry import parse_compressor
from .training.experiment import layout_of
from .training.networks import network

# Those that change the gradient least come first: "none" is ring all-reduce in float32.
CANDIDATES = (
    *("none", "qsgd:bits=8", "qsgd:bits=4,error_feedback=True", "qsgd:bits=2,error_feedback=True", "efsign"),
    *("powersgd:rank=4", "lqsgd:rank=4", "lqsgd:rank=1"),
)
ENOUGH = 1.1  # of the quickest step: what is gained beyond is not worth a coarser gradient
CHANNELS, SIDE, BATCH = 3, 32, 32  # of the images that a named network is given
MEASURED_BYTES = 4 << 20


@dataclass(frozen=True)
class Advice:
    """Of each candidate, what a step costs; and which is advised.

    compute: seconds of a step's computing. chosen: the place of the first that is quick enough.
    """

    names: Sequence[str]
    costs: Sequence[StepCosts]
    compute: float
    model: AlphaBetaModel
    ranks: int

    def seconds(self, place: int) -> float:
        """Of a step with a candidate, as predicted."""
        return self.compute + self.costs[place].codec + self.costs[place].link_seconds(self.model)

    @property
    def chosen(self) -> int:
        steps = [self.seconds(place) for place in range(len(self.names))]
        return next(place for place, step in enumerate(steps) if step <= ENOUGH * min(steps))


def advise(
    layout: Layout, compute: float, model: AlphaBetaModel, ranks: int, names: Sequence[str] = CANDIDATES
) -> Advice:
    """Measure the candidates' coding with such parameters; `compute` seconds a step."""
    compressors = [None if name == "none" else parse_compressor(name) for name in names]
    costs = [measure_step_costs(compressor, layout, ranks, model) for compressor in compressors]
    return Advice(names, costs, compute, model, ranks)


def model_of(name: str | None, parameters: int | None) -> tuple[Layout, float]:
    """Parameters and computing of a named network, or of one matrix of so many values, whose computing counts as 0."""
    if name is not None:
        layout = layout_of(list(network(name, CHANNELS, SIDE, 0).parameters()))
        return layout, compute_seconds(name, CHANNELS, SIDE, BATCH)
    if parameters is None or parameters < 1:
        raise DataError(f"--parameters {parameters}: give 1 or more, or a --network")
    rows = max(1, round(parameters**0.5))
    return [ParameterSpan(0, (rows, max(1, parameters // rows)))], 0.0


def measure_link(transport: Transport) -> AlphaBetaModel:
    """Latency and bandwidth between the ranks: the medians of exchanges of 8 bytes, and of 4 MiB, with each other."""
    latency = _exchange_seconds(transport, 8, 30)
    seconds = max(_exchange_seconds(transport, MEASURED_BYTES, 5) - latency, 1e-9)
    return AlphaBetaModel(latency, (transport.size - 1) * MEASURED_BYTES / seconds)


def _exchange_seconds(transport: Transport, count: int, rounds: int) -> float:
    parts = [torch.zeros(count, dtype=torch.uint8)] * transport.size
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        transport.exchange(parts, [count] * transport.size)
        seconds.append(time.perf_counter() - began)
    return median(seconds)


def loopback(ranks: int) -> AlphaBetaModel:
    """The link between so many processes of this machine."""
    if ranks < 2:
        raise DataError(f"--ranks {ranks}: a link is between two or more")
    return launch(_measure, ranks, timeout=120.0)[0]  # type: ignore[no-any-return]


def _measure(_: Report) -> AlphaBetaModel:
    return measure_link(TorchTransport())


def advice_text(advice: Advice) -> str:
    """A table of predictions, and a sentence that says what to use and why."""
    steps = [advice.seconds(place) for place in range(len(advice.names))]
    cells = [["compressor", "MB sent", "coding ms", "sending ms", "step ms", "quicker"]]
    for name, costs, step in zip(advice.names, advice.costs, steps, strict=True):
        sending = costs.link_seconds(advice.model)
        numbers = (f"{costs.sent / 1e6:.2f}", f"{costs.codec * 1e3:.2f}", f"{sending * 1e3:.2f}", f"{step * 1e3:.2f}")
        cells.append([name, *numbers, f"{steps[0] / step:.2f}"])
    link = f"{advice.model.bandwidth * 8e-6:,.0f} Mb/s, latency {advice.model.latency * 1e6:,.0f} microseconds"
    head = f"{advice.ranks} ranks, {link}; computing {advice.compute * 1e3:.2f} ms a step (predicted, nothing overlaps)"
    return "\n".join([head, "", align_columns(cells, left=1), "", _sentence(advice, steps)])


def _sentence(advice: Advice, steps: Sequence[float]) -> str:
    place, quickest = advice.chosen, min(range(len(steps)), key=steps.__getitem__)
    share = advice.costs[0].link_seconds(advice.model) / steps[0]
    why = f"sending float32 is {share:.0%} of a step"
    if place == 0:
        gain = steps[0] / steps[quickest]
        return f"Use none: {why}, and the best compressor would make a step {gain:.2f} times quicker."
    close = "" if place == quickest else f", within {ENOUGH - 1:.0%} of the quickest, {advice.names[quickest]},"
    gain = steps[0] / steps[place]
    return (
        f"Use {advice.names[place]}: {why}; with it a step is {gain:.2f} times quicker{close} and no other as quick "
        "changes the gradient less."
    )
