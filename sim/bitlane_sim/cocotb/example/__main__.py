"""Copy the example: `python -m bitlane_sim.cocotb.example DIR`."""

from __future__ import annotations

import argparse
from pathlib import Path

from bitlane_hw.export.build_options import fail

from . import TESTBENCH


def main() -> None:
    """Copy the testbench to the folder of the command line. A file that exists is kept, and ends the program."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_sim.cocotb.example",
        description="Write a testbench of the exported Verilog into a folder.",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="created if it does not exist")
    copy = parser.parse_args().folder / TESTBENCH.name
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        with copy.open("x") as file:
            file.write(TESTBENCH.read_text())
    except OSError as error:
        fail(parser, error)
    print(f"wrote {copy}; run it with: python -m bitlane_sim.cocotb {copy}")


if __name__ == "__main__":
    main()
