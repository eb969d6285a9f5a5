"""One mutant's trial: the RTL is replaced by the mutated one, and tests run until one fails."""

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
MIN_SECONDS = 10.0  # processor time that a stage may take, plus
TIMES_LONGER = 4.0  # this multiple of its time without a mutant


@dataclass(frozen=True)
class Verdict:
    """How a trial ended.

    Attributes
    ----------
    result : str
        "killed": a test failed. "survived": none did. "invalid": Amaranth does not elaborate the mutant. "identical":
        the Verilog is that of the RTL without the mutant.
    detail : str
        The first test that failed, or why the mutant is invalid.
    """

    result: str
    detail: str = ""


@dataclass(frozen=True)
class Stage:
    """A part of a trial.

    Attributes
    ----------
    name : str
        Of the stage.
    run : callable
        Returns a verdict, or None when the next stage must decide. Raises nothing.
    seconds : float
        Processor time of the stage without a mutant.
    """

    name: str
    run: Callable[[], Verdict | None]
    seconds: float = MIN_SECONDS


def sources(package: Path) -> dict[str, str]:
    """Return the text of each Python file below `package`, by its path without `.py`, such as "datapath/dot"."""
    return {
        path.relative_to(package).with_suffix("").as_posix(): path.read_text() for path in sorted(package.rglob("*.py"))
    }


class Sandbox:
    """A copy of a project in which the RTL is changed and tests run. The project itself is never changed.

    Parameters
    ----------
    project : Path
        Root of the project.
    folder : Path
        Folder for the copy.
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
        """Return the text of each file of the RTL, by its path below the package without `.py`."""
        return sources(self.root / "hw" / PACKAGE)

    def install(self, mutant: Mutant, name: str) -> Path:
        """Make a copy of the RTL with the mutant in folder `name`, and return the folder."""
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.root / "hw", folder, ignore=shutil.ignore_patterns("__pycache__"))
        file = folder / PACKAGE / f"{mutant.module}.py"
        file.write_text(mutant.applied(file.read_text()))
        return folder

    def activate(self, mutated: Path | None) -> None:
        """Import the RTL from `mutated`, if given, and all else from the copy, in a process only for this trial."""
        sys.dont_write_bytecode = True
        ours = [str(self.root / name) for name in FOLDERS]
        sys.path[:0] = [str(mutated), *ours] if mutated else ours
        for name in [*sys.modules]:
            if name.split(".")[0] in (PACKAGE, "bitlane", "bitlane_sim"):
                del sys.modules[name]
        importlib.invalidate_caches()
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the tests need none, and loading them takes a second
        os.chdir(self.root)


def start(stages: Callable[[], list[Stage]], prepare: Callable[[], None], report: Path, log: Path) -> int:
    """Run a trial in a new process and return its number; `finish` reads the verdict.

    Parameters
    ----------
    stages : callable
        Called in that process after `prepare`; returns the stages.
    prepare : callable
        Called first.
    report, log : Path
        Files that the process writes: its stages and verdict, and its output.
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
            _limit(MIN_SECONDS + TIMES_LONGER * stage.seconds)
            verdict = stage.run()
            if verdict is not None:
                break
        _note(report, asdict(verdict or Verdict("survived")))
    except BaseException as error:
        _note(report, {"result": "broken", "detail": repr(error)})
    finally:
        sys.stdout.flush()
        os._exit(0)


def finish(process: int, status: int, report: Path) -> Verdict:
    """Return the verdict of a trial whose process ended. A process out of time, or crashed, is killed by its stage.

    Raises
    ------
    RuntimeError
        The trial itself failed, not a test.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)  # compilers that the process left behind
    notes = [json.loads(line) for line in report.read_text().splitlines()]
    if notes and "result" in notes[-1]:
        verdict = Verdict(**notes[-1])
        if verdict.result == "broken":
            raise RuntimeError(f"a trial failed: {verdict.detail}")
        return verdict
    stage = notes[-1]["stage"] if notes else "start"
    how = "timeout" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU else "crash"
    return Verdict("killed", f"{stage}: {how}")


def _note(report: Path, entry: dict[str, Any]) -> None:
    with report.open("a") as file:
        file.write(json.dumps(entry) + "\n")


def _limit(seconds: float) -> None:
    """Let the process use this much more processor time."""
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + seconds) + 1, resource.RLIM_INFINITY))


class _FirstFailure:
    """A pytest plugin that keeps the first test that failed, and the class of what it raised."""

    def __init__(self) -> None:
        self.test = ""
        self.error: type[BaseException] | None = None

    def pytest_exception_interact(self, node: Any, call: Any) -> None:
        """Called by pytest when a test, or one of its fixtures, raises."""
        if not self.test:
            self.test, self.error = node.nodeid, call.excinfo.type


def run_tests(root: Path, tests: list[str], keyword: str = "") -> tuple[str, type[BaseException] | None]:
    """Run tests until one fails.

    Parameters
    ----------
    root : Path
        Root of the project.
    tests : list of str
        Files or tests, relative to it.
    keyword : str, default=""
        Run only the tests with this in their name; all when empty.

    Returns
    -------
    test : str
        The first test that failed; "" when none did.
    error : type or None
        The class of what it raised.
    """
    first = _FirstFailure()
    options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-c", str(root / "pyproject.toml")]
    options += ["-k", keyword] if keyword else []
    code = pytest.main([*options, "--rootdir", str(root), *(str(root / test) for test in tests)], plugins=[first])
    if code != pytest.ExitCode.OK and not first.test:
        first.test = f"pytest: {code.name if isinstance(code, pytest.ExitCode) else code}"
    return first.test, first.error


def baseline_seconds(
    sandbox: Sandbox, tests: list[str], prepare: Callable[[], None] = lambda: None, keyword: str = ""
) -> float:
    """Return the processor time, in seconds, of tests without a mutant.

    Raises
    ------
    RuntimeError
        One of them fails.
    """
    report, log = sandbox.root.parent / "baseline.json", sandbox.root.parent / "baseline.log"

    def run() -> Verdict | None:
        failed, _ = run_tests(sandbox.root, tests, keyword)
        return Verdict("killed", failed) if failed else None

    def ready() -> None:
        sandbox.activate(None)
        prepare()

    process = start(lambda: [Stage("baseline", run, 600)], ready, report, log)
    _, status, usage = os.wait4(process, 0)
    verdict = finish(process, status, report)
    if verdict.result != "survived":
        raise RuntimeError(f"{verdict.detail} fails without a mutant: see {log}")
    return usage.ru_utime + usage.ru_stime
