"""Make the SoC, simulate it in Verilator, and return what it has trained."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from bitlane_sim.cocotb.runner import BenchSimulator, run_bench

from .digits import BUILD, DigitsModel
from .files import FOLDER, MODEL, SEED, VERILOG
from .soc import TOP, generate

LOG = "cocotb.log"  # of `run_bench`: the simulator's output
VIOLATION = re.compile(r"^\[\d+ps\] .*violation.*", re.MULTILINE)  # as LiteDRAM's checker prints it


@dataclass(frozen=True)
class SocRun:
    """A training on the SoC.

    Attributes
    ----------
    model : DigitsModel
    violations : list of str
        Lines in which LiteDRAM's model of the DRAM reports a command that came too early or a refresh too late.
    """

    model: DigitsModel
    violations: list[str]


def train_on_soc(folder: Path, seed: int) -> SocRun:
    """Train the digits on the SoC.

    Parameters
    ----------
    folder : Path
        An existing folder for all files.
    seed : int
        Of the training, and of everything in the simulator that has no initial value, the content of the DRAM included.

    Raises
    ------
    AssertionError
        The testbench failed; the message has the end of its log.
    DeviceError
        A tool is missing.
    """
    generate(BUILD, folder)
    environment = {FOLDER: str(folder), SEED: str(seed)}
    simulator = BenchSimulator(fast=True, ports_only=True)  # a million cycles: the host writes the samples word by word
    run_bench(folder / VERILOG, TOP, f"{__package__}.testbench", folder, seed, environment, simulator)
    return SocRun(DigitsModel.load(folder / MODEL), VIOLATION.findall((folder / LOG).read_text()))
