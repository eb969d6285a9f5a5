"""What all users of Yosys share: how the RTL is mapped to cells, the area of the cells, and how a tool is run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bitlane.errors import BitlaneError
from bitlane_verify.yowasp import environment_of

ADDRESS_BITS = 32  # of the Zynq-7000
MAP = "synth_xilinx -flatten -abc9 -arch xc7"  # of the table, the bitstreams and the simulated netlists


@dataclass
class SynthesisFigures:
    """Area and speed of a configuration: cells of a 7-series chip, and MHz by static timing if it was placed."""

    lut: int
    ff: int
    bram36: float
    dsp: int
    xc7_mhz: float | None = None
    ecp5_mhz: float | None = None


def area(cells: dict[str, int]) -> SynthesisFigures:
    """Return the area from Yosys' counts of 7-series cells; distributed RAM and shift registers count as LUTs."""

    def count(pattern: str) -> int:
        return sum(number for name, number in cells.items() if re.fullmatch(pattern, name))

    return SynthesisFigures(
        lut=count(r"LUT[1-6]|SRL.*|INV") + 4 * count(r"RAM32M|RAM64M") + 2 * count(r"RAM64X1D|RAM32X1D"),
        ff=count(r"FD[RSCP]E(_1)?"),
        bram36=count(r"RAMB36E1") + count(r"RAMB18E1") / 2,
        dsp=count(r"DSP48E1"),
    )


def run_tool(*command: str, folder: Path) -> str:
    """Run a program of this environment or of PATH in `folder`. Return its output; raises BitlaneError if it fails."""
    program = Path(sys.executable).with_name(command[0])
    path = str(program) if program.exists() else shutil.which(command[0])
    if path is None:
        raise BitlaneError(f"{command[0]} is not installed: pip install ./verify")
    done = subprocess.run([path, *command[1:]], cwd=folder, env=environment_of(path), capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip() or "it wrote no message").splitlines()[-1]
        raise BitlaneError(f"{command[0]} ended with status {done.returncode}: {last}")
    return done.stdout + done.stderr
