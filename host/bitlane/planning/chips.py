"""Boards, and what their chips and memories have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bitlane.contract.config import AcceleratorConfig
from bitlane.errors import DataError
from bitlane.overlays import RECIPES, overlays

from .area import Area

ZYNQ_7000_ADDRESS_BITS, ADDRESS_BITS = 32, 40
RECIPE_WIDTH, RECIPE_MHZ = 256, 300.0  # of the Vivado recipes


@dataclass(frozen=True)
class BoardChip:
    """A chip: its name, its cells (AMD DS190, DS891, DS987), and the width of its addresses."""

    name: str
    area: Area
    address_bits: int


XC7Z020 = BoardChip("xc7z020", Area(lut=53_200, ff=106_400, bram36=140, dsp=220), ZYNQ_7000_ADDRESS_BITS)
XCZU7EV = BoardChip("xczu7ev", Area(lut=230_400, ff=460_800, bram36=312, dsp=1_728), ADDRESS_BITS)
XCK26 = BoardChip("xck26", Area(lut=117_120, ff=234_240, bram36=144, dsp=1_248), ADDRESS_BITS)
CHIPS = {"Pynq-Z2": XC7Z020, "Pynq-Z1": XC7Z020, "Arty-Z7-20": XC7Z020, "ZCU104": XCZU7EV, "KV260": XCK26}
# Bytes a second of the memory that the logic reads: DDR3 with 16 bits at 1,050 MT/s. Others are not known here.
MEMORY_BYTES = {"Pynq-Z2": 2.1e9, "Pynq-Z1": 2.1e9, "Arty-Z7-20": 2.1e9}
CMA_BYTES = 128 << 20  # that the kernel of a PYNQ image reserves for buffers


@dataclass(frozen=True)
class Board:
    """A board and the bitstream for it.

    Attributes
    ----------
    name : str
        Its name in pynq.
    chip : BoardChip
    width : int
        Bits of the memory port of its bitstream.
    clock_mhz : float
        Clock of its bitstream.
    bitstream : str
        Where the bitstream is, or the recipe for it.
    memory_bytes : float or None
        Bytes a second of its memory, if known.
    """

    name: str
    chip: BoardChip
    width: int
    clock_mhz: float
    bitstream: str
    memory_bytes: float | None


@dataclass(frozen=True)
class BoardBuild:
    """A build for a board.

    Attributes
    ----------
    board : Board
    config : AcceleratorConfig
    clock_mhz : float
    """

    board: Board
    config: AcceleratorConfig
    clock_mhz: float

    @classmethod
    def of(cls, board: Board, width: int | None, clock_mhz: float | None, **options: Any) -> BoardBuild:
        """Return a build for a board: port and clock of its bitstream unless they are given, and other options."""
        config = AcceleratorConfig(width or board.width, address_bits=board.chip.address_bits, **options)
        return cls(board, config, clock_mhz or board.clock_mhz)

    def seconds(self, cycles: int) -> float:
        """Return the time of some clock cycles."""
        return cycles / (self.clock_mhz * 1e6)


def board_named(name: str) -> Board:
    """Return the board of this name, in upper or lower case. Raise DataError with all names for any other."""
    known = {board.lower(): board for board in CHIPS}
    if name.lower() not in known:
        raise DataError(f"unknown board {name!r}: choose one of {', '.join(known)}")
    board = known[name.lower()]
    overlay = overlays().get(board)
    width, clock_mhz = (RECIPE_WIDTH, RECIPE_MHZ) if overlay is None else (overlay.width, overlay.clock_mhz)
    place = RECIPES.get(board, "none") if overlay is None else overlay.location
    return Board(board, CHIPS[board], width, clock_mhz, place, MEMORY_BYTES.get(board))
