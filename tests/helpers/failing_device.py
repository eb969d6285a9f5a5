"""An emulated device that fails in one of its runs."""

from __future__ import annotations

from bitlane.contract.modes import ErrorCode
from bitlane.devices.configuration import Fault
from bitlane.devices.emulator import EmulatorDevice


class FailsInRun(EmulatorDevice):
    """Its second run ends with an error of the memory, and so do all later ones."""

    runs = 0

    def _begin(self, geometry, state, levels):
        self.runs += 1
        return super()._begin(geometry, state, levels)

    def _feed(self, engine, geometry, at, number):
        if self.runs > 1:
            raise Fault(ErrorCode.READ_DECODE)
        super()._feed(engine, geometry, at, number)
