"""The class that pynq binds to accelerators in overlays; pynq loads it through the entry point `pynq.lib`."""

from __future__ import annotations

from typing import Any

from pynq import DefaultIP

from bitlane.contract.registers import IDENTITY, REGISTERS, VLNV
from bitlane.errors import DeviceError


def check_board(parameters: dict[str, str], board: Any) -> None:
    """DeviceError where a handoff's parameters are of another board's overlay."""
    if parameters["BOARD"] != board.name:
        raise DeviceError(
            f"the overlay is for {parameters['BOARD']}, but this board is {board.name}: take the one for it"
        )


class BitlaneIP(DefaultIP):
    """An accelerator as pynq sees it: `BoardDevice` drives it, and estimators take that as their device.

    Members
    -------
    parameters: of the handoff, text by name: BOARD, BUILD, WIDTH, OUTPUTS, CLOCK_MHZ.

    Raises
    ------
    DeviceError: the handoff is another board's, or the registers say something else than it does.
    """

    bindto = [VLNV]  # noqa: RUF012

    def __init__(self, description: dict[str, Any]):
        super().__init__(description)
        self.parameters: dict[str, str] = description["parameters"]
        check_board(self.parameters, self.device)
        expected = {
            "identity": (IDENTITY, "it is no bitlane accelerator, or its clock stands still"),
            "build": (int(self.parameters["BUILD"]), "the .bit and its .hwh are of different builds"),
            "port_bits": (int(self.parameters["WIDTH"]), "the .bit and its .hwh are of different builds"),
            "outputs": (int(self.parameters["OUTPUTS"]), "the .bit and its .hwh are of different builds"),
        }
        for name, (value, meaning) in expected.items():
            found = int(self.mmio.read(REGISTERS[name].offset)) & 0xFFFF_FFFF
            if found != value:
                raise DeviceError(f"the register {name} holds {found:#x} instead of {value:#x}: {meaning}")
