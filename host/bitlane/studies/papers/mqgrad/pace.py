"""The duration of a step by bits: computing and coding are measured, sending follows from the cost model.

Computing and coding are measured as CPU time of one thread, so that other work on the machine does not count. Tests
compare the cost model with emulated links.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from bitlane.compress.collectives.emulated_links import parse_link
from bitlane.compress.compressors.dense import QSGD
from bitlane.compress.costs import compute_costs, measure_step_costs
from bitlane.compress.training.experiment import layout_of
from bitlane.compress.training.networks import network
from bitlane.policies.choices import BIT_CHOICES

RANKS, BATCH = 4, 32
CHANNELS, SIDE = 3, 32
LINKS = ("100mbit", "1gbit")


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

    def seconds(self, bits: int) -> float:
        """Return the duration of a step with a number of bits."""
        return self.compute + self.codec[bits] + self.sending[bits]


def measure_step_times(name: str, channels: int = CHANNELS, side: int = SIDE, batch: int = BATCH) -> list[StepTimes]:
    """Measure the times for each link of `LINKS`, with a network of `networks.NETWORKS`; by default for CIFAR-10."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        layout = layout_of(list(network(name, channels, side, 0).parameters()))
        compute = compute_costs(name, channels, side, batch, time.process_time).total
        found = []
        for text in LINKS:
            model = parse_link(text)
            costs = {
                bits: measure_step_costs(QSGD(bits), layout, RANKS, model, time.process_time) for bits in BIT_CHOICES
            }
            codec = {bits: each.codec for bits, each in costs.items()}
            found.append(
                StepTimes(text, compute, codec, {bits: each.link_seconds(model) for bits, each in costs.items()})
            )
        return found
    finally:
        torch.set_num_threads(threads)
