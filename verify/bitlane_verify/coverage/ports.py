"""The coverpoints of builds with shards, and with several memory ports.

Which port made a beat wait follows from the disturbance: with `alone`, only that port stalls, so that its part of a
beat is the last one.
"""

from __future__ import annotations

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.layout import CHUNK
from bitlane_sim.rtl.disturbance import CHANNELS, Disturbance
from bitlane_sim.rtl.harness import Monitor

from .buses import MEMORY_ERRORS
from .covergroup import Covergroup

MEMORY_CHANNELS = tuple(channel for channel in CHANNELS if channel != "lite")
SKEWS = {0: "with the first", 1: "1 cycle later", 40: "40 cycles later"}  # those of `Disturbance.arbitrary`


def declare(group: Covergroup, config: AcceleratorConfig) -> None:
    """Add the coverpoints of a build, empty: none without shards, and none with one port."""
    if config.shards > 1:
        group.declare("shard of the last feature", range(config.shards))
    if config.ports > 1:
        group.cross("stalls of one port", range(config.ports), MEMORY_CHANNELS)
        group.declare("stalls of all ports, apart", MEMORY_CHANNELS)
        group.declare("answers of further ports", SKEWS.values())
        group.cross("error at one port", range(config.ports), MEMORY_ERRORS)


def sample_registers(group: Covergroup, registers: dict[str, int], config: AcceleratorConfig) -> None:
    """Sample the registers after a run without an error."""
    if config.shards > 1:
        group.hit("shard of the last feature", (registers["features"] - 1) // CHUNK % config.shards)


def sample_stalls(
    group: Covergroup, config: AcceleratorConfig, disturbance: Disturbance, seen_before: Monitor, seen_after: Monitor
) -> None:
    """Sample the stalls in a run that equals the reference.

    Parameters
    ----------
    group : Covergroup
    config : AcceleratorConfig
    disturbance : Disturbance
        Of the run.
    seen_before, seen_after : Monitor
        What the harness had seen before the run, and after it.
    """
    if config.ports == 1:
        return
    group.hit("answers of further ports", SKEWS[disturbance.skew])
    for channel in MEMORY_CHANNELS:
        cycles = seen_after.stalls[channel] - seen_before.stalls[channel]
        if disturbance.alone is None:
            group.hit("stalls of all ports, apart", channel, times=cycles)
        else:
            group.hit("stalls of one port", disturbance.alone % config.ports, channel, times=cycles)


def sample_error(group: Covergroup, config: AcceleratorConfig, disturbance: Disturbance, error_code: str) -> None:
    """Sample a run that ended with the code of the error of its disturbance."""
    if config.ports > 1 and disturbance.alone is not None:
        group.hit("error at one port", disturbance.alone % config.ports, error_code)
