"""The small builds on which mutants are simulated completely."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from .trial import PACKAGE

if TYPE_CHECKING:
    from bitlane.contract.config import AcceleratorConfig

TIMEOUT = 3.0  # seconds that the driver gives a simulator that makes no progress
ACCELERATOR_TESTS = (
    "tests/verify/equivalence/test_exact.py::test_random_runs",
    "tests/sim/rtl/test_faults.py::test_interrupted_at_any_cycle",
    "tests/sim/rtl/test_faults.py::test_error_response",
)
ENCODER_TESTS = (
    "tests/verify/equivalence/test_encoder.py::test_random_encodings",
    "tests/verify/equivalence/test_encoder.py::test_interrupted_at_any_cycle",
    "tests/verify/equivalence/test_encoder.py::test_error_response",
)
ZYNQ_TESTS = (
    "tests/verify/equivalence/test_zynq_soak.py::test_random_runs",
    "tests/verify/equivalence/test_zynq_soak.py::test_cycles_on_one_port",
    "tests/verify/equivalence/test_zynq_soak.py::test_cycles_of_a_long_run",
    "tests/verify/equivalence/test_zynq_soak.py::test_irq_is_high_from_the_end_of_a_run_until_it_is_acknowledged",
    "tests/verify/equivalence/test_zynq_soak.py::test_a_failed_word_ends_the_run",
    "tests/verify/equivalence/test_zynq_soak.py::test_a_failed_write_ends_the_run",
)


@dataclass(frozen=True)
class Build:
    """A build, as small as it can be without losing a mode.

    Attributes
    ----------
    name : str
        Of the build.
    width, outputs, level_slots, random_rounding, encoder, shards, ports
        As of `AcceleratorConfig`.
    zynq : bool
        Whether it has the ports of a chip: up to 128 bits the AXI3 ports of a Zynq-7000, else two AXI4 ports.
    """

    name: str
    width: int
    outputs: int = 1
    level_slots: int = 0
    random_rounding: bool = False
    encoder: int = 0
    shards: int = 1
    ports: int = 1
    zynq: bool = False

    @property
    def config(self) -> AcceleratorConfig:
        """The configuration; its module may be another one in each process."""
        from bitlane.contract.config import AcceleratorConfig

        config = AcceleratorConfig(
            self.width,
            self.outputs,
            max_features=max(128, 64 * self.shards),
            row_buffer_beats=128,
            level_slots=self.level_slots,
            random_rounding=self.random_rounding,
            encoder=self.encoder,
            shards=self.shards,
            ports=self.ports,
        )
        return replace(config, row_buffer_beats=256, address_bits=32) if self.zynq else config  # that of ZYNQ_TESTS

    @property
    def has_processor(self) -> bool:
        """Whether the processing system is in it, which simulators leave out."""
        return self.zynq and self.width <= 128

    @property
    def tests(self) -> tuple[str, ...]:
        """Tests of the complete build."""
        return ZYNQ_TESTS if self.zynq else ACCELERATOR_TESTS + (ENCODER_TESTS if self.encoder else ())

    @property
    def keyword(self) -> str:
        """Which of these tests are of this build, and quick, as an expression of pytest's `-k`."""
        return str(self.width) if self.zynq else "not slow"

    def component(self) -> Any:
        """Return the class of the top component."""
        if self.has_processor:
            from bitlane_hw.zynq.top import Zynq

            return Zynq
        if self.zynq:
            from bitlane_hw.zynq.two_ports import TwoPortAccelerator

            return TwoPortAccelerator
        from bitlane_hw.accelerator import Accelerator

        return Accelerator

    def top(self) -> Any:
        """Return the top component."""
        return self.component()(self.config, build=0)

    def elaboration_error(self) -> str:
        """Return why Amaranth does not elaborate the build, or ""."""
        from amaranth.hdl import Fragment

        try:
            Fragment.get(self.top(), None).prepare()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def verilog(self) -> str:
        """Return the Verilog of all of the build, with 0 as the number of its sources."""
        from bitlane_hw.export.verilog import TOP, to_verilog

        return str(to_verilog(self.top(), TOP))

    def simulated_verilog(self) -> str:
        """Return the Verilog that simulators take: on a Zynq-7000 all but the processing system."""
        if not self.has_processor:
            return self.verilog()
        from bitlane_hw.export.verilog import to_verilog
        from bitlane_hw.zynq.fabric import ZynqFabric
        from bitlane_hw.zynq.top import FABRIC_TOP

        return str(to_verilog(ZynqFabric(self.config, build=0), FABRIC_TOP))

    def use(self, verilog: Path, runtime: Path) -> None:
        """Let the tests of the complete build use only this build, with this Verilog, compiled in little time.

        Parameters
        ----------
        verilog : Path
            The Verilog.
        runtime : Path
            Folder for what is compiled once for all builds.
        """
        for name in [*sys.modules]:
            if name.split(".")[0] in ("bitlane_sim", "bitlane_verify", "tests"):
                del sys.modules[name]  # what the tests of another build imported names that build
        from bitlane.driver import driver
        from bitlane_sim.rtl import build
        from bitlane_verify.equivalence import encoder_soak, random_jobs, rig

        quick = {"8000": "100000", "-O3": "-O1", "-O2": "-O0"}
        replace_names(
            build,
            VERILATOR_FLAGS=tuple(quick.get(flag, flag) for flag in build.VERILATOR_FLAGS),
            COMPILER_FLAGS=tuple(quick.get(flag, flag) for flag in build.COMPILER_FLAGS),
            JOBS=1,
            verilog=lambda config=None: verilog,
            fabric_verilog=lambda config: verilog,
            two_ports_verilog=lambda config: verilog,
        )
        replace_names(build, LINKER_FLAGS=(*runtime_objects(build, runtime), *build.LINKER_FLAGS), RUNTIME=())
        replace_names(random_jobs, TESTED=(self.config,), CONFIGS=(self.config,))
        replace_names(rig, CONFIGS=(self.config,))
        replace_names(encoder_soak, CONFIG=self.config)
        driver.Driver.__init__.__defaults__ = (TIMEOUT,)


def runtime_objects(build: ModuleType, folder: Path) -> list[str]:
    """Return the object files of Verilator's library, compiled into `folder` by the first call."""
    tools = build.toolchain.find()
    include = tools.root / "include"
    objects = []
    for name in build.RUNTIME:
        path = (folder / name).with_suffix(".o")
        if not path.exists():
            options = [*build.COMPILER_FLAGS, f"-I{include}", f"-I{include / 'vltstd'}"]
            new = path.with_suffix(f".{os.getpid()}.o")
            build.toolchain.run([tools.compiler, *options, "-c", str(include / name), "-o", str(new)])
            new.replace(path)  # another process may compile the same file
        objects.append(str(path))
    return objects


def replace_names(module: ModuleType, **values: object) -> None:
    """Give names of a module other values; raise AttributeError when it does not have one of them."""
    for name, value in values.items():
        getattr(module, name)
        setattr(module, name, value)


BUILDS = (
    Build("64 bits, digit lanes", 64),
    Build("128 bits, 2 ports, 2 outputs, encoder", 128, 2, encoder=1, ports=2),
    Build("64 bits, table lanes, random rounding", 64, level_slots=64, random_rounding=True),
    Build("64 bits, encoder", 64, encoder=2),
    Build("256 bits, 2 shards, 2 ports, random rounding", 256, random_rounding=True, shards=2, ports=2),
    Build("Zynq, one HP port", 64, zynq=True),
    Build("Zynq, two HP ports", 128, zynq=True),
    Build("Zynq UltraScale+, two ports", 256, zynq=True),
)


@dataclass(frozen=True)
class ReferenceVerilog:
    """The Verilog of a build without a mutant, and the modules of the RTL whose functions made it.

    Attributes
    ----------
    build : Build
        The build.
    folder : Path
        Folder of the files.
    """

    build: Build
    folder: Path

    @property
    def _stem(self) -> str:
        return self.build.name.replace(", ", "-").replace(" ", "_")

    @property
    def simulated(self) -> Path:
        """The file for simulators."""
        return self.folder / f"{self._stem}.v"

    def verilog(self) -> str:
        """Return the Verilog of all of the build."""
        return (self.folder / f"{self._stem}.top.v").read_text()

    def modules(self) -> set[str]:
        """Return the modules whose functions ran while the build was elaborated."""
        return set(json.loads((self.folder / f"{self._stem}.json").read_text()))

    def write(self) -> None:
        """Write the files, in a process that imports the RTL without a mutant; and use the build."""
        importlib.import_module(f"{PACKAGE}.export.verilog")  # imports all modules, which calls functions of some
        text, modules = modules_called(self.build.verilog)
        (self.folder / f"{self._stem}.top.v").write_text(text)
        (self.folder / f"{self._stem}.json").write_text(json.dumps(sorted(modules)))
        self.simulated.write_text(self.build.simulated_verilog() if self.build.has_processor else text)
        os.environ["BITLANE_CACHE"] = str(self.folder / "cache")
        self.build.use(self.simulated, self.folder)


def modules_called(function: Callable[[], str]) -> tuple[str, set[str]]:
    """Return what a function returns, and the modules of the RTL whose functions it calls, such as "datapath/dot"."""
    files: set[str] = set()

    def called(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    sys.setprofile(called)
    try:
        result = function()
    finally:
        sys.setprofile(None)
    paths = (file.replace(os.sep, "/").rpartition(f"/{PACKAGE}/") for file in files)
    return result, {path.removesuffix(".py") for _, package, path in paths if package}
