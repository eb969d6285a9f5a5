"""The rungs of the tests that a mutant climbs: cheap ones first."""

from __future__ import annotations

import ast
import functools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .operators import Mutant
from .trial import PACKAGE, Sandbox, Stage, Verdict, measured, run_tests, sources

if TYPE_CHECKING:
    from bitlane.contract.config import AcceleratorConfig

# Modules that are no hardware, or whose numbers the reference takes from the same place.
NO_HARDWARE = ("__init__", "build_digest", "export")
HELPERS = "helpers"  # the folder of the tests' helpers, which reach the RTL too
LEFT_OUT = ("export/test_",)  # no hardware, or the same blocks again, slowly
# The whole accelerator, as small as it can be without losing a mode: (width, outputs).
SHAPES = ((64, 1), (128, 2))
WHOLE = (
    "tests/sim/equivalence/test_exact.py::test_random_runs",
    "tests/sim/rtl/test_faults.py::test_interrupted_at_any_cycle",
    "tests/sim/rtl/test_faults.py::test_error_response",
)
BUILD_SECONDS = 30.0  # of this process, for a simulator that is not there yet
PATIENCE = 3.0  # seconds that the driver gives a simulator that does not go on


def small(shape: tuple[int, int]) -> AcceleratorConfig:
    """The configuration of a shape."""
    from bitlane.contract.config import AcceleratorConfig

    width, outputs = shape
    return AcceleratorConfig(width, outputs, max_features=128, row_buffer_beats=128)


def is_hardware(module: str) -> bool:
    """Whether a module of the package, such as "datapath/dot", describes hardware."""
    return not any(part in NO_HARDWARE for part in module.split("/"))


def reaching(sandbox: Sandbox) -> dict[str, list[str]]:
    """For each module of the RTL the files of `tests/hw` that reach it: its own first, then the others."""
    modules = sandbox.sources()
    tests = sources(sandbox.root / "tests" / "hw")
    helpers = {f"{HELPERS}/{name}": text for name, text in sources(sandbox.root / "tests" / HELPERS).items()}
    needs = {name: set(imported(text, name)) for name, text in {**modules, **helpers}.items()}
    reached = {
        f"tests/hw/{name}.py": closure(set(imported(text, "")), needs)
        for name, text in tests.items()
        if name.rpartition("/")[2].startswith("test_") and not name.startswith(LEFT_OUT)
    }
    return {module: _own_first(module, (test for test in reached if module in reached[test])) for module in modules}


def _own_first(module: str, tests: Iterable[str]) -> list[str]:
    own = f"tests/hw/{own_test(module)}.py"
    return sorted(tests, key=lambda test: test != own)


def own_test(module: str) -> str:
    """The file of tests that mirrors a module: "datapath/test_dot" for "datapath/dot"."""
    folder, slash, name = module.rpartition("/")
    return f"{folder}{slash}test_{name}"


def imported(source: str, module: str) -> Iterator[str]:
    """The modules of the RTL, as paths below the package, and the helpers that the source of `module` imports."""
    folder = [PACKAGE, *module.split("/")[:-1]]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            package = folder[: len(folder) - node.level + 1] if node.level else []
            path = [*package, *(node.module or "").split(".")] if node.module else package
            if path[:1] == [PACKAGE] or path[:2] == ["tests", HELPERS]:
                yield "/".join(path[1:])
                yield from ("/".join([*path[1:], alias.name]) for alias in node.names)


def closure(modules: set[str], needs: dict[str, set[str]]) -> set[str]:
    """These modules, and all that they need."""
    found: set[str] = set()
    while modules:
        found |= modules
        modules = set().union(*(needs.get(module, set()) for module in modules)) - found
    return found


@dataclass
class Ladder:
    """The tests of a project, and what they take.

    Attributes
    ----------
    tests: for each module, as `reaching`. seconds: of each file of tests. whole: seconds of each of SHAPES.
    """

    sandbox: Sandbox
    tests: dict[str, list[str]]
    seconds: dict[str, float]
    whole: dict[tuple[int, int], float]

    @classmethod
    def of(cls, sandbox: Sandbox, modules: Iterable[str]) -> Ladder:
        """Run all that there is for these modules once, without a mutant; RuntimeError where something fails."""
        every = reaching(sandbox)
        tests = {module: every[module] for module in modules}
        seconds = {test: measured(sandbox, [test]) for test in sorted(set().union(*tests.values()))}
        ladder = cls(sandbox, tests, seconds, {})
        for shape in SHAPES:
            ladder.whole[shape] = BUILD_SECONDS + measured(sandbox, [*WHOLE], functools.partial(ladder.begin, shape))
        return ladder

    def verilog(self, shape: tuple[int, int]) -> Path:
        """Where the Verilog without a mutant is."""
        return self.sandbox.root.parent / f"{shape[0]}x{shape[1]}.v"

    def begin(self, shape: tuple[int, int]) -> None:
        """Prepare the tests without a mutant, and keep the Verilog."""
        self.verilog(shape).write_text(netlist(shape))
        reduce(shape, self.verilog(shape))

    def stages(self, mutant: Mutant, folder: Path) -> list[Stage]:
        """The trial of a mutant that lies in `folder`."""
        same: list[bool] = []

        def unit(test: str) -> Verdict | None:
            failed, error = run_tests(self.sandbox.root, [test])
            if not failed:
                return None
            if error is not AssertionError and (why := refusal(SHAPES[0]) or refusal(SHAPES[1])):
                return Verdict("refused", why)
            return Verdict("killed", failed)

        def whole(shape: tuple[int, int]) -> Verdict | None:
            if why := refusal(shape):
                return Verdict("refused", why)
            changed = folder / "whole.v"
            changed.write_text(netlist(shape))
            same.append(changed.read_text() == self.verilog(shape).read_text())
            if same[-1]:
                return None
            os.environ["BITLANE_CACHE"] = str(folder / "cache")
            reduce(shape, changed)
            failed, _ = run_tests(self.sandbox.root, [*WHOLE])
            return Verdict("killed", f"{failed} {shape[0]}x{shape[1]}") if failed else None

        def ends() -> Verdict:
            return Verdict("same" if all(same) else "survived")

        own, *others = [
            Stage(test, functools.partial(unit, test), self.seconds[test]) for test in self.tests[mutant.module]
        ] or [Stage("no tests", lambda: None)]
        first, *wider = [
            Stage(f"{shape}", functools.partial(whole, shape), seconds) for shape, seconds in self.whole.items()
        ]
        middle = sorted([first, *others], key=lambda stage: stage.seconds)
        return [own, *middle, *wider, Stage("end", ends)]


def refusal(shape: tuple[int, int]) -> str:
    """Why Amaranth does not elaborate the accelerator, or ""."""
    from amaranth.hdl import Fragment

    try:
        from bitlane_hw.accelerator import Accelerator

        Fragment.get(Accelerator(small(shape)), None).prepare()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def netlist(shape: tuple[int, int]) -> str:
    """The accelerator in Verilog, but for the number that its sources have."""
    from bitlane_hw.accelerator import Accelerator
    from bitlane_hw.export.verilog import TOP, to_verilog

    return str(to_verilog(Accelerator(small(shape), build=0), TOP))


def reduce(shape: tuple[int, int], verilog: Path) -> None:
    """Let the tests of the whole accelerator use one small configuration, this Verilog, compiled in little time."""
    from bitlane.driver import driver
    from bitlane_sim.equivalence import random_jobs, rig
    from bitlane_sim.rtl import build

    vars(build).update(
        VERILATOR_FLAGS=tuple("100000" if flag == "8000" else flag for flag in build.VERILATOR_FLAGS),
        COMPILER_FLAGS=tuple("-O0" if flag == "-O2" else flag for flag in build.COMPILER_FLAGS),
        JOBS=1,
        verilog=lambda config=None: verilog,
    )
    vars(random_jobs).update(TESTED=(small(shape),), CONFIGS=(small(shape),))
    vars(rig).update(CONFIGS=(small(shape),))
    driver.Driver.__init__.__defaults__ = (PATIENCE,)
