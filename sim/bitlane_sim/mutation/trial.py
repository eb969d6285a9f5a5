"""One mutant's trial: it is put in the place of the RTL, and tests run until one fails."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from .operators import Mutant

PACKAGE = "bitlane_hw"
FOLDERS = ("host", "hw", "sim")  # below a project's root: what its tests import
LEAST_SECONDS = 10.0  # of processor time that a stage has, and
TIMES_LONGER = 4.0  # this much of what it takes without a mutant


@dataclass(frozen=True)
class Verdict:
    """How a trial ended.

    Attributes
    ----------
    result: "killed", "survived", "refused" (Amaranth does not elaborate it) or "same" (the Verilog is that of the RTL
    without the mutant). by: the first test that failed, or why.
    """

    result: str
    by: str = ""


@dataclass(frozen=True)
class Stage:
    """A part of a trial.

    Attributes
    ----------
    name: of it. seconds: of processor time, without a mutant.
    run: returns a verdict where that is clear now, else None; raises nothing.
    """

    name: str
    run: Callable[[], Verdict | None]
    seconds: float = LEAST_SECONDS


def sources(package: Path) -> dict[str, str]:
    """The text of each Python file below `package`, by its path without `.py`, such as "datapath/dot"."""
    return {
        path.relative_to(package).with_suffix("").as_posix(): path.read_text() for path in sorted(package.rglob("*.py"))
    }


class Sandbox:
    """A copy of a project, in which the RTL is changed and tests run; the project itself is never touched.

    Parameters
    ----------
    project: root of the project. folder: where the copy goes.
    """

    def __init__(self, project: Path, folder: Path):
        self.root = folder / "project"
        self._folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        for name in (*FOLDERS, "tests"):
            if (project / name).is_dir():
                shutil.copytree(project / name, self.root / name, ignore=ignored)
        shutil.copy(project / "pyproject.toml", self.root)

    def sources(self) -> dict[str, str]:
        """The text of each file of the RTL, by its path below the package, without `.py`."""
        return sources(self.root / "hw" / PACKAGE)

    def place(self, mutant: Mutant, name: str) -> Path:
        """A folder with a copy of the RTL in which this is changed."""
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.root / "hw", folder, ignore=shutil.ignore_patterns("__pycache__"))
        file = folder / PACKAGE / f"{mutant.module}.py"
        file.write_text(mutant.applied(file.read_text()))
        return folder

    def enter(self, mutated: Path | None) -> None:
        """In a process of its own: import the RTL, mutated or not, and all else from the copy."""
        sys.dont_write_bytecode = True
        ours = [str(self.root / name) for name in FOLDERS]
        sys.path[:0] = [str(mutated), *ours] if mutated else ours
        for name in [*sys.modules]:
            if name.split(".")[0] in (PACKAGE, "bitlane", "bitlane_sim"):
                del sys.modules[name]
        importlib.invalidate_caches()
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # none of them is needed, and they take a second
        os.chdir(self.root)


def start(stages: Callable[[], list[Stage]], prepare: Callable[[], None], report: Path, log: Path) -> int:
    """Run a trial in a process of its own, and return its number; `finish` says how it ended.

    Parameters
    ----------
    stages: made in that process, after `prepare`. report, log: files that it writes.
    """
    report.write_text("")
    process = os.fork()
    if process:
        return process
    try:
        os.setpgid(0, 0)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        prepare()
        verdict = None
        for stage in stages():
            _note(report, {"stage": stage.name})
            _limit(LEAST_SECONDS + TIMES_LONGER * stage.seconds)
            verdict = stage.run()
            if verdict is not None:
                break
        _note(report, asdict(verdict or Verdict("survived")))
    except BaseException as error:
        _note(report, {"result": "broken", "by": repr(error)})
    finally:
        sys.stdout.flush()
        os._exit(0)


def finish(process: int, status: int, report: Path) -> Verdict:
    """The verdict of a trial whose process has ended: one that ran out of time or crashed is killed by its stage."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)  # compilers that it left behind
    notes = [json.loads(line) for line in report.read_text().splitlines()]
    if notes and "result" in notes[-1]:
        verdict = Verdict(**notes[-1])
        if verdict.result == "broken":
            raise RuntimeError(f"a trial broke: {verdict.by}")
        return verdict
    stage = notes[-1]["stage"] if notes else "start"
    how = "no end" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU else "a crash"
    return Verdict("killed", f"{stage}: {how}")


def _note(report: Path, what: dict[str, Any]) -> None:
    with report.open("a") as file:
        file.write(json.dumps(what) + "\n")


def _limit(seconds: float) -> None:
    """Let the process run for so long from now."""
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + seconds) + 1, resource.RLIM_INFINITY))


class _FirstFailure:
    """A pytest plugin that keeps which test failed first, and with what."""

    def __init__(self) -> None:
        self.test = ""
        self.error: type[BaseException] | None = None

    def pytest_exception_interact(self, node: Any, call: Any) -> None:
        """Called by pytest where a test, or what it needs, raises."""
        if not self.test:
            self.test, self.error = node.nodeid, call.excinfo.type


def run_tests(root: Path, tests: list[str]) -> tuple[str, type[BaseException] | None]:
    """Run these tests until one fails: which, and what it raised; "" where none did."""
    first = _FirstFailure()
    options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-c", str(root / "pyproject.toml")]
    code = pytest.main([*options, "--rootdir", str(root), *(str(root / test) for test in tests)], plugins=[first])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and not first.test:
        first.test = f"pytest: {code.name if isinstance(code, pytest.ExitCode) else code}"
    return first.test, first.error


def measured(sandbox: Sandbox, tests: list[str], prepare: Callable[[], None] = lambda: None) -> float:
    """Seconds of processor time that these tests take without a mutant; RuntimeError where one of them fails."""
    report, log = sandbox.root.parent / "baseline.json", sandbox.root.parent / "baseline.log"

    def run() -> Verdict | None:
        failed, _ = run_tests(sandbox.root, tests)
        return Verdict("killed", failed) if failed else None

    def ready() -> None:
        sandbox.enter(None)
        prepare()

    process = start(lambda: [Stage("baseline", run, 600)], ready, report, log)
    _, status, usage = os.wait4(process, 0)
    verdict = finish(process, status, report)
    if verdict.result != "survived":
        raise RuntimeError(f"without any mutant {verdict.by} fails, see {log}")
    return usage.ru_utime + usage.ru_stime
