"""The chips of the bitstreams, and the boards that have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bitlane.errors import DataError
from bitlane_hw.zynq.axi3 import HP_DATA_BITS
from bitlane_hw.zynq.top import HP_PORTS

if TYPE_CHECKING:
    from bitlane.contract.config import AcceleratorConfig

PORT_BITS = int(HP_DATA_BITS)
IO_PLL_MHZ = 1000
ADDRESS_BITS = 32


@dataclass(frozen=True)
class Chip:
    """A Zynq-7000 and the boards that have it. One bitstream fits all of them, because it uses no pin of the logic.

    Attributes
    ----------
    name : str
        Name of the folder of its bitstream.
    part : str
        The chip with package and speed grade.
    boards : tuple of (str, str)
        Of each board the name on the command line and the name in pynq. On all of them the processing system's
        oscillator has 50 MHz, and the boot loader sets the IO PLL to 20 times that.
    divisors : (int, int)
        Divisors of FCLK_CLK0, the clock of the accelerator, after the IO PLL of 1000 MHz. The default is for the
        frequency that nextpnr reaches with two ports.
    ports : tuple of str
        The HP ports that share the memory port of the accelerator.
    """

    name: str
    part: str
    boards: tuple[tuple[str, str], ...]
    divisors: tuple[int, int] = (10, 1)
    ports: tuple[str, ...] = tuple(f"HP{number}" for number in HP_PORTS)

    @property
    def clock_mhz(self) -> float:
        """FCLK_CLK0: PYNQ sets it when it loads the overlay, and timing must meet it."""
        return IO_PLL_MHZ / (self.divisors[0] * self.divisors[1])

    @property
    def width(self) -> int:
        """Bits of the accelerator's memory port."""
        return PORT_BITS * len(self.ports)

    def config(self) -> AcceleratorConfig:
        """Return the configuration of the accelerator in this chip."""
        from bitlane.contract.config import AcceleratorConfig

        return AcceleratorConfig(width=self.width, address_bits=ADDRESS_BITS)


XC7Z020 = Chip(
    "xc7z020",
    "xc7z020clg400-1",
    (("pynq-z2", "Pynq-Z2"), ("pynq-z1", "Pynq-Z1"), ("arty-z7-20", "Arty-Z7-20")),
)
CHIPS = {chip.name: chip for chip in (XC7Z020,)}


def chip_named(name: str) -> Chip:
    """Return the chip of this name, or of the board with this name. Raises DataError with all names for any other."""
    for chip in CHIPS.values():
        if name in (chip.name, *(board for board, _ in chip.boards)):
            return chip
    names = [name for chip in CHIPS.values() for name in (*(board for board, _ in chip.boards), chip.name)]
    raise DataError(f"unknown board {name!r}; choose from {', '.join(names)}")
