"""The interrupt line of the processor, for which pynq waits."""

from __future__ import annotations

import asyncio

from pynq.interrupt import _InterruptController

from .board import Hardware, SimulatedBoard

POLL_SECONDS = 0.001


class SimulatedUio:
    """A replacement of pynq's UioController: sets an event when the output of the interrupt controller is high."""

    def __init__(self, hardware: Hardware):
        self._hardware = hardware

    def add_event(self, event: asyncio.Event, number: int) -> None:
        """Set `event` at the next interrupt. Call it inside a running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._watch(event))

    async def _watch(self, event: asyncio.Event) -> None:
        while not self._hardware.intc.output:
            await asyncio.sleep(POLL_SECONDS)
            self._hardware.catch_up()
        event.set()


def connect_interrupt(board: SimulatedBoard) -> None:
    """Connect the first interrupt line of the PL, for overlays with an interrupt controller."""
    number = 61 if board.arch == "armv7l" else 121  # of the processor's interrupt controller (UG585, UG1085)
    _InterruptController._uio_devices[number] = SimulatedUio(board.hardware)
