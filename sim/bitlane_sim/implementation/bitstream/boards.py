"""The boards that a bitstream can be made for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bitlane.errors import DataError

if TYPE_CHECKING:
    from bitlane.contract.config import AcceleratorConfig

PORT_BITS = 64  # of an HP port of a Zynq-7000
IO_PLL_MHZ = 1000
ADDRESS_BITS = 32


@dataclass(frozen=True)
class Board:
    """A board with a Zynq-7000.

    Attributes
    ----------
    name: as on the command line. pynq_name: as pynq has it.
    part: the chip, with package and speed grade.
    divisors: of FCLK_CLK0, the accelerator's clock, behind the IO PLL's 1000 MHz: what nextpnr reaches with two ports.
    ports: HP ports that the accelerator's memory port is spread over.
    """

    name: str
    pynq_name: str
    part: str
    divisors: tuple[int, int] = (17, 1)
    ports: tuple[str, ...] = ("HP0", "HP1")

    @property
    def clock_mhz(self) -> float:
        """FCLK_CLK0: what PYNQ sets the clock to when it loads the overlay, and what timing has to meet."""
        return IO_PLL_MHZ / (self.divisors[0] * self.divisors[1])

    @property
    def width(self) -> int:
        """Bits of the accelerator's memory port."""
        return PORT_BITS * len(self.ports)

    def config(self) -> AcceleratorConfig:
        """The accelerator that is built for this board."""
        from bitlane.contract.config import AcceleratorConfig

        return AcceleratorConfig(width=self.width, address_bits=ADDRESS_BITS)

    @property
    def build(self) -> int:
        """What its accelerator's `build` register reads."""
        from bitlane_hw.build_digest import build_digest

        return int(build_digest(self.config(), zynq=True))


BOARDS = {
    name: Board(name, pynq_name, "xc7z020clg400-1")
    for name, pynq_name in (("pynq-z2", "Pynq-Z2"), ("pynq-z1", "Pynq-Z1"), ("arty-z7-20", "Arty-Z7-20"))
}


def board_named(name: str) -> Board:
    """The board of this name; DataError that lists them for any other."""
    if name not in BOARDS:
        raise DataError(f"there is no board {name!r}: choose from {', '.join(BOARDS)}")
    return BOARDS[name]
