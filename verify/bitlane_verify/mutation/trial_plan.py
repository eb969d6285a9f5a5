"""The stages of a mutant's trial: cheap tests first, then simulations of complete builds."""

from __future__ import annotations

import ast
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from .builds import BUILDS, Build, ReferenceVerilog
from .operators import Mutant
from .trial import PACKAGE, MutantVerdict, Sandbox, Stage, baseline, run_tests, sources

NOT_HARDWARE = ("__init__", "build_digest", "export")  # no hardware, or numbers that the reference takes from there too
HELPERS = "helpers"  # the folder of the tests' helpers, which reach the RTL too
ZYNQ_TESTS = "tests/hw/zynq/"
LEFT_OUT = ("export/test_",)  # tests of other outputs than hardware
BUILD_SECONDS = 30.0  # of this process, for a simulator that is not in the cache


def is_hardware(module: str) -> bool:
    """Return whether a module of the package, such as "datapath/dot", describes hardware."""
    return not any(folder in NOT_HARDWARE for folder in module.split("/"))


def unit_tests(sandbox: Sandbox) -> dict[str, list[str]]:
    """Return the files of `tests/hw` that import each module of the RTL, directly or not; its own file first."""
    modules = sandbox.sources()
    tests = sources(sandbox.root / "tests" / "hw")
    helpers = {f"{HELPERS}/{name}": text for name, text in sources(sandbox.root / "tests" / HELPERS).items()}
    needs = {name: set(imports(text, name)) for name, text in {**modules, **helpers}.items()}
    reached = {
        f"tests/hw/{name}.py": closure(set(imports(text, "")), needs)
        for name, text in tests.items()
        if name.rpartition("/")[2].startswith("test_") and not name.startswith(LEFT_OUT)
    }
    return {
        module: _own_first(module, (test for test in reached if module in reached[test] and not _is_far(module, test)))
        for module in modules
    }


def _is_far(module: str, test: str) -> bool:
    """Return whether a test of the Zynq-7000's ports reaches the module only inside the accelerator behind."""
    return test.startswith(ZYNQ_TESTS) and not module.startswith("zynq/")


def _own_first(module: str, tests: Iterable[str]) -> list[str]:
    own = f"tests/hw/{own_test(module)}.py"
    return sorted(tests, key=lambda test: test != own)


def own_test(module: str) -> str:
    """Return the file of tests that mirrors a module: "datapath/test_dot" for "datapath/dot"."""
    folder, slash, name = module.rpartition("/")
    return f"{folder}{slash}test_{name}"


def imports(source: str, module: str) -> Iterator[str]:
    """Yield the modules of the RTL, as paths below the package, and the helpers that the source of `module` imports."""
    folder = [PACKAGE, *module.split("/")[:-1]]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            package = folder[: len(folder) - node.level + 1] if node.level else []
            path = [*package, *(node.module or "").split(".")] if node.module else package
            if path[:1] == [PACKAGE] or path[:2] == ["tests", HELPERS]:
                yield "/".join(path[1:])
                yield from ("/".join([*path[1:], alias.name]) for alias in node.names)


def closure(modules: set[str], needs: dict[str, set[str]]) -> set[str]:
    """Return these modules and all that they need, directly or not."""
    closed: set[str] = set()
    while modules:
        closed |= modules
        modules = set().union(*(needs.get(module, set()) for module in modules)) - closed
    return closed


def builds_of(module: str, reached: dict[Build, set[str]]) -> list[Build]:
    """Return the builds that can show a mutant of a module.

    Parameters
    ----------
    module : str
        The module, such as "datapath/dot".
    reached : dict
        The modules that make each build.

    Returns
    -------
    list of Build
        The accelerators that it makes. The Zynq builds, which contain the first accelerator, only when it makes no
        accelerator.

    Raises
    ------
    RuntimeError
        It makes no build, so that no simulation of a complete build can show its mutants.
    """
    builds = [build for build, modules in reached.items() if module in modules]
    if not builds:
        raise RuntimeError(f"{module} is in none of the builds of bitlane_verify.mutation.builds: add one that has it")
    return [build for build in builds if not build.zynq] or builds


@dataclass
class TrialPlan:
    """The tests of a project, and the processor time of each without a mutant.

    Attributes
    ----------
    sandbox : Sandbox
        The project's copy.
    tests : dict
        Unit tests of each module, as `unit_tests` returns them.
    seconds : dict
        Of each file of unit tests.
    test_seconds : dict
        Of each unit test, by its name in pytest.
    system_seconds : dict
        Of the tests of each build.
    reached : dict
        The modules that make each build.
    seeds : dict
        Seeds of the tests of some mutants, by the mutant's key; all others get a fresh one.
    """

    sandbox: Sandbox
    tests: dict[str, list[str]]
    seconds: dict[str, float]
    test_seconds: dict[str, float]
    system_seconds: dict[Build, float]
    reached: dict[Build, set[str]]
    seeds: dict[tuple[str, str, str], int] = field(default_factory=dict)

    @classmethod
    def measured(
        cls,
        sandbox: Sandbox,
        modules: Sequence[str],
        on_time: Callable[[str, float], None] = lambda name, seconds: None,
        processes: int = 1,
    ) -> TrialPlan:
        """Run all tests of these modules once without a mutant, and call `on_time` with the time of each.

        `processes` of them run at a time.

        Raises
        ------
        RuntimeError
            A test fails, or a module makes no build.
        """
        every = unit_tests(sandbox)
        tests = {module: every[module] for module in modules}
        plan = cls(sandbox, tests, {}, {}, {}, {})
        files = sorted(set().union(*tests.values()))
        with ThreadPoolExecutor(processes) as pool:
            complete = [
                pool.submit(baseline, sandbox, [*build.tests], plan.reference(build).write, build.keyword)
                for build in BUILDS
            ]
            units = [pool.submit(baseline, sandbox, [test]) for test in files]
            for build, run in zip(BUILDS, complete, strict=True):
                used, _ = run.result()
                plan.system_seconds[build] = BUILD_SECONDS + used
                on_time(build.name, used)
                plan.reached[build] = plan.reference(build).modules()
            for test, run in zip(files, units, strict=True):
                plan.seconds[test], each = run.result()
                plan.test_seconds |= each
                on_time(test, plan.seconds[test])
        for module in modules:
            builds_of(module, plan.reached)
        return plan

    def reference(self, build: Build) -> ReferenceVerilog:
        """Return the Verilog of a build without a mutant."""
        return ReferenceVerilog(build, self.sandbox.root.parent)

    def stages(self, mutant: Mutant, folder: Path) -> list[Stage]:
        """Return the stages of the trial of a mutant that was installed in `folder`."""
        is_identical: list[bool] = []
        seed = self.seeds.get(mutant.key, int.from_bytes(os.urandom(4), "little"))

        def unit(test: str) -> MutantVerdict | None:
            run = run_tests(self.sandbox.root, [test], seconds=self.test_seconds, seed=seed)
            if not run.failed:
                return None
            if run.error is not AssertionError:
                for build in builds:
                    if why := build.elaboration_error():
                        return MutantVerdict("invalid", why)
            return MutantVerdict("killed", run.failed)

        def system(build: Build) -> MutantVerdict | None:
            try:
                text = build.verilog()
            except Exception as error:
                return MutantVerdict("invalid", f"{type(error).__name__}: {error}")
            reference = self.reference(build)
            is_identical.append(text == reference.verilog())
            if is_identical[-1]:
                return None
            if build.has_processor:
                text = build.simulated_verilog()
                if text == reference.simulated.read_text():
                    return None  # only the processing system differs, which is not simulated
            changed = folder / "mutant.v"
            changed.write_text(text)
            os.environ["BITLANE_CACHE"] = str(folder / "cache")
            build.use(changed, reference.folder)
            run = run_tests(self.sandbox.root, [*build.tests], build.keyword, seed=seed)
            return MutantVerdict("killed", f"{run.failed}, {build.name}") if run.failed else None

        def end() -> MutantVerdict:
            return MutantVerdict("identical" if all(is_identical) else "survived")

        builds = builds_of(mutant.module, self.reached)
        own, *others = [
            Stage(test, functools.partial(unit, test), self.seconds[test], seed) for test in self.tests[mutant.module]
        ] or [Stage("no unit tests", lambda: None)]
        first, *wider = [
            Stage(build.name, functools.partial(system, build), self.system_seconds[build], seed) for build in builds
        ]
        middle = sorted([first, *others], key=lambda stage: stage.seconds)
        return [own, *middle, *wider, Stage("end", end)]
