"""Run a testbench on the exported Verilog: `python -m bitlane_sim.cocotb [TESTBENCH.py] [--simulator icarus]`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bitlane.contract.config import AcceleratorConfig
from bitlane.errors import BitlaneError
from bitlane_hw.export.build_options import add_build_options, build_of, fail
from bitlane_sim.rtl.build import TOP, verilog
from bitlane_sim.rtl.wave_views import write_views

from .example import TESTBENCH
from .runner import SIMULATORS, VERILATOR, BenchSimulator, run_bench

SMALL = AcceleratorConfig(max_features=256, row_buffer_beats=256, fifo_beats=64)  # compiled in half the time
OUT = Path("runs/cocotb")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tests; return 1 if one fails. A wrong option or a missing tool ends the program with one line."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_sim.cocotb",
        description="Run the cocotb tests of a file on the Verilog of the accelerator.",
    )
    add = parser.add_argument
    add("testbench", nargs="?", type=Path, default=TESTBENCH, metavar="TESTBENCH.py", help="(default: the example)")
    add("--simulator", choices=SIMULATORS, default=VERILATOR, help=f"(default: {VERILATOR})")
    add("--waves", action="store_true", help="write the changes of all signals, and views of them, into OUT")
    add("--verilog", type=Path, metavar="FILE", help=f"a design with the top {TOP} (default: export the build below)")
    add("--out", type=Path, default=OUT, metavar="DIR", help=f"folder of the results (default: {OUT})")
    add("--seed", type=int, metavar="N", help="seed of all that is random (default: a new one)")
    add_build_options(parser, SMALL)
    arguments = parser.parse_args(argv)
    simulator = BenchSimulator(arguments.simulator, waves=arguments.waves)
    seed = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed
    try:
        config = build_of(arguments)
        testbench = arguments.testbench.resolve(strict=True)
        directory = arguments.out.resolve()
        directory.mkdir(parents=True, exist_ok=True)
        sys.path.insert(0, str(testbench.parent))  # cocotb's runner passes it on
        design = arguments.verilog or verilog(config)
        run_bench(design, TOP, testbench.stem, directory, seed, simulator=simulator, show=True)
    except AssertionError as error:
        print(f"{error}; repeat the run with --seed {seed}", file=sys.stderr)
        return 1
    except (BitlaneError, OSError) as error:
        fail(parser, error)
    print(f"all tests passed, with --seed {seed}")
    if arguments.waves:
        waves = directory / simulator.waves_name
        write_views(waves, TOP, config.width, config.address_bits)
        print(f"open the waves: gtkwave {waves.with_suffix('.gtkw')}")
        print(f"or, in {directory}: surfer {waves.name} --command-file {waves.stem}.sucl")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
