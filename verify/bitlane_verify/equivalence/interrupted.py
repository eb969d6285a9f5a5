"""A device whose run or encoding is cut short: by an abort, or by a reset."""

from __future__ import annotations

from typing import Any, Literal

from bitlane.contract.registers import CONTROL_ABORT, CONTROL_ENCODE, CONTROL_START, REGISTERS
from bitlane_sim.rtl.device import RtlDevice

CONTROL = REGISTERS["control"].offset


class Interrupted:
    """A device with an abort or a reset some cycles after each start.

    Parameters
    ----------
    device : RtlDevice
    cycles : int
        Cycles from the start to the interruption.
    happening : {"abort", "reset"}
    """

    def __init__(self, device: RtlDevice, cycles: int, happening: Literal["abort", "reset"]):
        self._device = device
        self._cycles = cycles
        self._happening = happening

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def write(self, offset: int, value: int) -> None:
        """Write a register."""
        self._device.write(offset, value)
        if offset == CONTROL and value & (CONTROL_START | CONTROL_ENCODE):
            self._device.run(self._cycles)
            if self._happening == "abort":
                self._device.write(CONTROL, CONTROL_ABORT)
            else:
                self._device.reset()
