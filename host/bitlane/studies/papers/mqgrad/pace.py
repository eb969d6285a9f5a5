"""How long a step takes with so many bits: computing and coding measured, sending by the model of a link.

Processor time of one thread stands for the time of computing and coding, so that other work on the machine does not
count. The model of the link is the one by which averages choose their way; tests hold it against emulated links.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from bitlane.compress.collectives.emulated_links import parse_link
from bitlane.compress.compressors.dense import QSGD
from bitlane.compress.costs import compute_seconds, measure_step_costs
from bitlane.compress.training.experiment import layout_of
from bitlane.compress.training.networks import network
from bitlane.policies.choices import BIT_CHOICES

RANKS, BATCH = 4, 32
CHANNELS, SIDE = 3, 32
LINKS = ("100mbit", "1gbit")


@dataclass(frozen=True)
class StepTimes:
    """Of a link: seconds of a step's computing, and of coding and sending by bits."""

    link: str
    compute: float
    codec: Mapping[int, float]
    sending: Mapping[int, float]

    def seconds(self, bits: int) -> float:
        """Of a whole step."""
        return self.compute + self.codec[bits] + self.sending[bits]


def measure_step_times(name: str) -> list[StepTimes]:
    """Of each of `LINKS`, with a network of this name for CIFAR-10."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        layout = layout_of(list(network(name, CHANNELS, SIDE, 0).parameters()))
        compute = compute_seconds(name, CHANNELS, SIDE, BATCH, time.process_time)
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
