"""The duration of a step by bits: computing and coding are measured, sending follows from the cost model.

Computing and coding are measured as CPU time of one thread, so that other work on the machine does not count. Tests
compare the cost model with emulated links.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from bitlane.compress.codecs.groups import Groups
from bitlane.compress.collectives.emulated_links import parse_link
from bitlane.compress.compressor import Layout, vector_length
from bitlane.compress.compressors.dense import QSGD
from bitlane.compress.compressors.group_sample import begin_sample
from bitlane.compress.costs import compute_costs, measure_step_costs
from bitlane.compress.training.experiment import layout_of
from bitlane.compress.training.networks import network
from bitlane.policies.allocation import BitAllocation
from bitlane.policies.choices import BIT_CHOICES
from bitlane.policies.protocol import Observation
from bitlane.support.one_thread import one_thread

RANKS, BATCH = 4, 32
CHANNELS, SIDE = 3, 32
LINKS = ("100mbit", "1gbit")
STEPS = 21  # whose median is the time of coding


@dataclass(frozen=True)
class StepTimes:
    """The times of a step on one link, in seconds.

    Attributes
    ----------
    link : str
        The link, as `parse_link` takes it.
    compute : float
        Computing time.
    codec, sending : mapping of int to float
        Times of coding and sending, by bits.
    """

    link: str
    compute: float
    codec: Mapping[int, float]
    sending: Mapping[int, float]

    def seconds(self, bits: float) -> float:
        """Return the duration of a step with a mean number of bits; between whole numbers it is interpolated."""
        return self.compute + _interpolated(self.codec, bits) + _interpolated(self.sending, bits)

    def clock(self, bits: float) -> tuple[float, float]:
        """Return the duration of a step, and of its exchanges."""
        return self.seconds(bits), _interpolated(self.sending, bits)


def _interpolated(times: Mapping[int, float], bits: float) -> float:
    known = sorted(times)
    return float(np.interp(bits, known, [times[each] for each in known]))


def with_allocation(paces: Sequence[StepTimes], layout: Layout) -> list[StepTimes]:
    """Return the times with the coding of `BitAllocation`, which is measured: several widths, samples and choices."""
    policy = BitAllocation()
    coding = measure_step_costs(QSGD(policy), layout, RANKS, parse_link(LINKS[0]), time.process_time, STEPS).codec
    with one_thread():
        coding += _choice_seconds(policy, vector_length(layout)) / policy.period
    return [replace(each, codec=dict.fromkeys(BIT_CHOICES, coding)) for each in paces]


def _choice_seconds(policy: BitAllocation, count: int) -> float:
    """Return the processor time of one choice: the median of five."""
    groups, gradient = Groups.of(count), torch.randn(count, generator=torch.Generator().manual_seed(0))
    times = []
    for _ in range(5):
        chooser, start = policy.start(), time.process_time()
        for _ in range(2):
            choices = chooser.sampled_bits
            sample = begin_sample(gradient, groups, choices, True)(gradient) if choices else None
            chooser.after(Observation(1.0, 1.0, lambda: 1.0, True, 0.5, sample), lambda own: [own] * RANKS)
        times.append(time.process_time() - start)
    return float(np.median(times))


def measure_step_times(name: str, channels: int = CHANNELS, side: int = SIDE, batch: int = BATCH) -> list[StepTimes]:
    """Measure the times for each link of `LINKS`, with a network of `networks.NETWORKS`; by default for CIFAR-10."""
    layout = layout_of(list(network(name, channels, side, 0).parameters()))
    with one_thread():
        compute = compute_costs(name, channels, side, batch, time.process_time).total
    times = []
    for text in LINKS:
        model = parse_link(text)
        costs = {
            bits: measure_step_costs(QSGD(bits), layout, RANKS, model, time.process_time, STEPS) for bits in BIT_CHOICES
        }
        codec = {bits: each.codec for bits, each in costs.items()}
        times.append(StepTimes(text, compute, codec, {bits: each.link_seconds(model) for bits, each in costs.items()}))
    return times
