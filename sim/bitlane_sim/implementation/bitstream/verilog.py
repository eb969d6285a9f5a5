"""The Verilog of a board's top: `python -m bitlane_sim.implementation.bitstream.verilog BOARD FILE`.

It runs in a separate process with a fixed PYTHONHASHSEED: the names in Amaranth's output follow the order of sets.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bitlane_sim.rtl.toolchain import run

from .boards import Board, board_named

TOP = "bitlane_zynq"


def write(board: Board, file: Path) -> None:
    """Write the Verilog of `board`, with the top module `bitlane_zynq`: always the same text."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    run([sys.executable, "-m", __spec__.name, board.name, str(file)], environment)


def main() -> None:
    """Write the Verilog of the board to the file, both from the command line."""
    from bitlane_hw.zynq.top import generate_zynq

    generate_zynq(board_named(sys.argv[1]).config(), Path(sys.argv[2]))


if __name__ == "__main__":
    main()
