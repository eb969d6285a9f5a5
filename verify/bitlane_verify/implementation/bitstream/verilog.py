"""The Verilog of a chip's top: `python -m bitlane_verify.implementation.bitstream.verilog CHIP BUILD FILE`.

It runs in a separate process with a fixed PYTHONHASHSEED: the names in Amaranth's output follow the order of sets.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bitlane_sim.rtl.toolchain import run

from .chips import Chip, chip_named

TOP = "bitlane_zynq"


def write(chip: Chip, build: int, file: Path) -> None:
    """Write the Verilog of `chip`, with the top module `bitlane_zynq`: always the same text."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    run([sys.executable, "-m", __spec__.name, chip.name, str(build), str(file)], environment)


def main() -> None:
    """Write the Verilog of the chip, with this build number, to the file, all from the command line."""
    from bitlane_hw.export.verilog import generate_zynq

    generate_zynq(chip_named(sys.argv[1]).config(), Path(sys.argv[3]), int(sys.argv[2]))


if __name__ == "__main__":
    main()
