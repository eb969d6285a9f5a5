"""The boards of the bitstreams."""

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
    name, pynq_name : str
        Name on the command line, and in pynq.
    part : str
        The chip with package and speed grade.
    divisors : (int, int)
        Divisors of FCLK_CLK0, the clock of the accelerator, after the IO PLL of 1000 MHz. The default is for the
        frequency that nextpnr reaches with two ports.
    ports : tuple of str
        The HP ports that share the memory port of the accelerator.
    """

    name: str
    pynq_name: str
    part: str
    divisors: tuple[int, int] = (10, 1)
    ports: tuple[str, ...] = ("HP2", "HP3")

    @property
    def clock_mhz(self) -> float:
        """FCLK_CLK0: PYNQ sets it when it loads the overlay, and timing must meet it."""
        return IO_PLL_MHZ / (self.divisors[0] * self.divisors[1])

    @property
    def width(self) -> int:
        """Bits of the accelerator's memory port."""
        return PORT_BITS * len(self.ports)

    def config(self) -> AcceleratorConfig:
        """Return the configuration of the accelerator on this board."""
        from bitlane.contract.config import AcceleratorConfig

        return AcceleratorConfig(width=self.width, address_bits=ADDRESS_BITS)

    @property
    def build(self) -> int:
        """Value of the `build` register of its accelerator."""
        from bitlane_hw.build_digest import build_digest

        return int(build_digest(self.config(), zynq=True))


BOARDS = {
    name: Board(name, pynq_name, "xc7z020clg400-1")
    for name, pynq_name in (("pynq-z2", "Pynq-Z2"), ("pynq-z1", "Pynq-Z1"), ("arty-z7-20", "Arty-Z7-20"))
}


def board_named(name: str) -> Board:
    """Return the board of this name. Raises DataError with all names for any other."""
    if name not in BOARDS:
        raise DataError(f"unknown board {name!r}; choose from {', '.join(BOARDS)}")
    return BOARDS[name]
