"""The coverpoints that every memory port has: bursts that end a page, stalls, and the errors of a memory."""

from __future__ import annotations

from bitlane.contract.modes import ErrorCode
from bitlane_sim.rtl.disturbance import CHANNELS
from bitlane_sim.rtl.harness import Monitor

from .covergroup import Covergroup

MEMORY_ERRORS = tuple(ErrorCode[f"{side}_{error}"].name for side in ("READ", "WRITE") for error in ("SLAVE", "DECODE"))


def declare(group: Covergroup) -> None:
    """Add the coverpoints, empty."""
    group.declare("burst ends at 4 KiB", ("read", "write"))
    group.declare("stall", CHANNELS)


def sample(group: Covergroup, monitor: Monitor) -> None:
    """Sample all that the monitor of a device has seen so far."""
    group.hit("burst ends at 4 KiB", "read", times=monitor.read_page_ends)
    group.hit("burst ends at 4 KiB", "write", times=monitor.write_page_ends)
    for channel, cycles in monitor.stalls.items():
        group.hit("stall", channel, times=cycles)
