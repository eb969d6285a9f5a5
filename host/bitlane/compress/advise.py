"""Recommend a compressor for a model and a link: `bitlane advise`.

Computing and coding are measured on this machine. Sending follows from the alpha-beta cost model and the compressor's
rounds and bytes. A step is a pipeline: while the backward pass computes a segment of the gradient, the one before is
coded and sent. Compressors that select from the whole gradient begin at its end, as with `overlap="auto"`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median

import torch

from bitlane.errors import DataError
from bitlane.support.text import stacked_columns

from .collectives.cost_model import AlphaBetaModel
from .collectives.launch import Report, launch
from .collectives.transport import TorchTransport, Transport
from .compressor import Layout, ParameterSpan
from .costs import ComputeCosts, StepCosts, compute_costs, measure_peaks, measure_step_costs
from .registry import parse_compressor
from .training.experiment import layout_of
from .training.networks import network

LOG = logging.getLogger(__name__)
LOCAL = "qsgd:bits=4,error_feedback=True"  # what a round of DiLoCo sends by default
# Ordered by how little they change the gradient. "none" is ring all-reduce in float32.
CANDIDATES = (
    *("none", "qsgd:bits=8", LOCAL, "qsgd:bits=2,error_feedback=True", "efsign"),
    *("powersgd:rank=4", "lqsgd:rank=4", "lqsgd:rank=1"),
)
ROUNDS_SHARE = 0.05  # share of the time that rounds of DiLoCo may take
NEAR_FASTEST = 1.1  # a candidate within this factor of the shortest step is fast enough
CHANNELS, SIDE, BATCH = 3, 32, 32  # the images for which a named network is measured
MEASURED_BYTES = 4 << 20


@dataclass(frozen=True)
class Advice:
    """The predicted step of each candidate, and the recommendation.

    Attributes
    ----------
    names : sequence of str
        The candidates, ordered by how little they change the gradient.
    costs : sequence of StepCosts
        The cost of coding and sending for each candidate.
    peaks : sequence of int or None
        Bytes of memory of each candidate at most, as `measure_peaks` returns them.
    compute : ComputeCosts
        Computing time of a step.
    model : AlphaBetaModel
        The link.
    ranks : int
        Number of ranks.
    """

    names: Sequence[str]
    costs: Sequence[StepCosts]
    peaks: Sequence[int | None]
    compute: ComputeCosts
    model: AlphaBetaModel
    ranks: int

    def step_seconds(self, index: int) -> float:
        """Return the predicted seconds of a step with candidate `index`."""
        return self.costs[index].step_seconds(self.compute, self.model)

    @property
    def chosen(self) -> int:
        """The index of the recommendation: the first candidate within 10 % of the shortest step."""
        steps = [self.step_seconds(index) for index in range(len(self.names))]
        return next(index for index, step in enumerate(steps) if step <= NEAR_FASTEST * min(steps))

    @property
    def every(self) -> int | None:
        """The fewest inner steps between two rounds of DiLoCo for which its rounds take at most 5 % of the time.

        More steps would cost accuracy and win little time. None if the computing time or `LOCAL` is unknown.
        """
        if LOCAL not in self.names or not self.compute.total:
            return None
        costs = self.costs[self.names.index(LOCAL)]
        in_steps = (costs.codec + costs.link_seconds(self.model)) / self.compute.total
        return max(1, ceil(in_steps * (1 - ROUNDS_SHARE) / ROUNDS_SHARE))


def advise(
    layout: Layout, compute: ComputeCosts, model: AlphaBetaModel, ranks: int, names: Sequence[str] = CANDIDATES
) -> Advice:
    """Measure the coding time of each candidate, and predict its step.

    Parameters
    ----------
    layout : Layout
        The parameters of the model; `layout_of` makes it.
    compute : ComputeCosts
        Computing time of a step; `measure_compute` measures that of any module.
    model : AlphaBetaModel
        The link between the ranks.
    ranks : int
        Number of ranks, 2 or more.
    names : sequence of str, default: CANDIDATES
        Compressors as `parse_compressor` takes them, ordered by how little they change the gradient.

    Returns
    -------
    Advice
        The predictions; `advice_text` formats them.

    Raises
    ------
    DataError
        For a single rank.

    Examples
    --------
    >>> from bitlane.compress.advise import advice_text, advise
    >>> from bitlane.compress.collectives.emulated_links import parse_link
    >>> from bitlane.compress.costs import measure_compute
    >>> from bitlane.compress.training.experiment import layout_of
    >>> compute = measure_compute(model, lambda: cross_entropy(model(x), y))  # doctest: +SKIP
    >>> layout = layout_of(list(model.parameters()))  # doctest: +SKIP
    >>> print(advice_text(advise(layout, compute, parse_link("1gbit"), ranks=4)))  # doctest: +SKIP
    """
    if ranks < 2:
        raise DataError(f"--ranks must be 2 or more, because a single rank sends nothing; got {ranks}")
    compressors = [None if name == "none" else parse_compressor(name) for name in names]
    costs = [measure_step_costs(compressor, layout, ranks, model) for compressor in compressors]
    peaks = measure_peaks(compressors, layout, ranks, model)
    return Advice(names, costs, peaks, compute, model, ranks)


def measure_model(name: str | None, parameters: int | None) -> tuple[Layout, ComputeCosts]:
    """Return the layout of a model and its computing time per step.

    Parameters
    ----------
    name : str or None
        A network of `networks.NETWORKS`; its computing time is measured.
    parameters : int or None
        Without a name: the values of one square matrix, whose computing time counts as 0.

    Raises
    ------
    DataError
        If there is neither a name nor a positive number of parameters, or if the network is unknown.
    """
    if name is not None:
        layout = layout_of(list(network(name, CHANNELS, SIDE, 0).parameters()))
        return layout, compute_costs(name, CHANNELS, SIDE, BATCH)
    if parameters is None or parameters < 1:
        raise DataError(f"--parameters must be 1 or more; got {parameters}. Or use --network")
    rows = max(1, round(parameters**0.5))
    return [ParameterSpan(0, (rows, max(1, parameters // rows)))], ComputeCosts(0.0, 0.0)


def measure_link(transport: Transport) -> AlphaBetaModel:
    """Measure latency and bandwidth between the ranks: medians over exchanges of 8 bytes and of 4 MiB."""
    latency = _exchange_seconds(transport, 8, 30)
    seconds = max(_exchange_seconds(transport, MEASURED_BYTES, 5) - latency, 1e-9)
    return AlphaBetaModel(latency, (transport.size - 1) * MEASURED_BYTES / seconds)


def _exchange_seconds(transport: Transport, count: int, rounds: int) -> float:
    buffers = [torch.zeros(count, dtype=torch.uint8)] * transport.size
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        transport.exchange(buffers, [count] * transport.size)
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def measure_loopback(ranks: int) -> AlphaBetaModel:
    """Measure the link between `ranks` processes of this machine; raise DataError for fewer than 2."""
    if ranks < 2:
        raise DataError(f"--ranks must be 2 or more to measure a link; got {ranks}")
    LOG.info("measuring the link between %d processes of this machine", ranks)
    return launch(_measure, ranks, timeout=120.0)[0]  # type: ignore[no-any-return]


def _measure(_: Report) -> AlphaBetaModel:
    return measure_link(TorchTransport())


def advice_text(advice: Advice) -> str:
    """Format the predictions as a table, followed by the recommendation and its reason."""
    steps = [advice.step_seconds(index) for index in range(len(advice.names))]
    cells = [["compressor", "MB sent", "coding ms", "sending ms", "step ms", "speed-up", "state MB", "peak MB"]]
    for name, costs, most, step in zip(advice.names, advice.costs, advice.peaks, steps, strict=True):
        sending, peak = costs.link_seconds(advice.model), "" if most is None else f"{most / 1e6:.1f}"
        numbers = (f"{costs.sent / 1e6:.2f}", f"{costs.codec * 1e3:.2f}", f"{sending * 1e3:.2f}", f"{step * 1e3:.2f}")
        cells.append([name, *numbers, f"{steps[0] / step:.2f}", f"{costs.state_bytes / 1e6:.1f}", peak])
    link = f"{advice.model.bandwidth * 8e-6:,.0f} Mb/s, latency {advice.model.latency * 1e6:,.0f} microseconds"
    compute = f"{advice.compute.forward * 1e3:.2f} + {advice.compute.backward * 1e3:.2f} ms forward and backward"
    title = f"{advice.ranks} ranks, {link}; {compute}"
    note = "step: predicted, with a core that codes while others compute. state, peak: memory beside that of DDP"
    lines = [title, note, "", stacked_columns(cells, left=1), "", _recommendation(advice, steps)]
    if advice.every is not None:
        lines.append(
            f"With DiLoCo, rounds of 4 bits a value take at most {ROUNDS_SHARE:.0%} of the time from "
            f"every={advice.every} on: a larger `every` costs accuracy and wins little time."
        )
    return "\n".join(lines)


def _recommendation(advice: Advice, steps: Sequence[float]) -> str:
    chosen, fastest = advice.chosen, min(range(len(steps)), key=steps.__getitem__)
    share = 1 - advice.compute.total / steps[0] if steps[0] else 0.0
    why = f"waiting for float32 is {share:.0%} of a step"
    if chosen == 0:
        gain = steps[0] / steps[fastest]
        return f"Use none: {why}, and the best compressor would make a step only {gain:.2f} times faster."
    near = "" if chosen == fastest else f", within {NEAR_FASTEST - 1:.0%} of the fastest, {advice.names[fastest]}"
    gain = steps[0] / steps[chosen]
    return (
        f"Use {advice.names[chosen]}: {why}; it makes a step {gain:.2f} times faster{near}. Of the compressors that "
        "are this fast it changes the gradient least."
    )
