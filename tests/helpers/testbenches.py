"""Benches of single blocks: from a component to a run of its cocotb tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.export.verilog import to_verilog
from bitlane_sim.cocotb.runner import run_bench
from bitlane_sim.cocotb.variant import environment


def run_block(component: Any, name: str, config: AcceleratorConfig, directory: Path, seed: int) -> None:
    """The tests of `bitlane_sim.cocotb.bench_<name>` on a component of this configuration.

    Its ports are named `a_b_c` by their paths.
    """
    path = directory / f"{name}_block.v"
    path.write_text(to_verilog(component, f"{name}_block"))
    module = f"bitlane_sim.cocotb.bench_{name}"
    run_bench(path, f"{name}_block", module, directory, seed, environment(config))
