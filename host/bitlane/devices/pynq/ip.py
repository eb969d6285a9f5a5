"""The class that pynq binds to accelerators in overlays; pynq loads it through the entry point `pynq.lib`."""

# pynq has no types: its objects and messages are Any.
from __future__ import annotations

from typing import Any

from pynq import DefaultIP

from bitlane.contract.registers import IDENTITY, REGISTERS, VLNV
from bitlane.errors import DeviceError


def check_board(parameters: dict[str, str], board: Any) -> None:
    """Raise DeviceError if the parameters of a hardware handoff belong to the overlay of another board."""
    overlay_board = parameters.get("BOARD", "an unknown board")
    if overlay_board != board.name:
        raise DeviceError(
            f"the overlay is for {overlay_board}, but this board is {board.name}: load the overlay for {board.name}"
        )


class BitlaneIP(DefaultIP):
    """An accelerator in pynq. `BoardDevice` makes it a device of the driver.

    Attributes
    ----------
    parameters : dict of str
        Parameters of the hardware handoff: BOARD, BUILD, WIDTH, OUTPUTS, CLOCK_MHZ.

    Raises
    ------
    DeviceError
        The handoff belongs to another board, or it contradicts the registers.
    """

    bindto = [VLNV]  # noqa: RUF012

    def __init__(self, description: dict[str, Any]):
        super().__init__(description)
        self.parameters: dict[str, str] = description["parameters"]
        check_board(self.parameters, self.device)
        expected = {
            "identity": (IDENTITY, "it is not a bitlane accelerator, or its clock does not run"),
            "build": (int(self.parameters["BUILD"]), "the .bit and its .hwh are of different builds"),
            "port_bits": (int(self.parameters["WIDTH"]), "the .bit and its .hwh are of different builds"),
            "outputs": (int(self.parameters["OUTPUTS"]), "the .bit and its .hwh are of different builds"),
        }
        for name, (value, meaning) in expected.items():
            actual = int(self.mmio.read(REGISTERS[name].offset)) & 0xFFFF_FFFF
            if actual != value:
                raise DeviceError(f"the register {name} holds {actual:#x} instead of {value:#x}: {meaning}")
