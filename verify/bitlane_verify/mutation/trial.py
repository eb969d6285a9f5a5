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
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from .operators import Mutant

PACKAGE = "bitlane_hw"
FOLDERS = ("host", "hw", "sim", "verify")  # below a project's root: what its tests import
MIN_SECONDS = 5.0  # processor time that a stage may take, plus
TIMES_LONGER = 3.0  # this multiple of its time without a mutant
TEST_SECONDS = 20.0  # as MIN_SECONDS, for a single test, which may also make what other tests use


@dataclass(frozen=True)
class MutantVerdict:
    """How a trial ended.

    Attributes
    ----------
    result : str
        "killed": a test failed. "survived": none did. "invalid": Amaranth does not elaborate the mutant. "identical":
        the Verilog is that of the RTL without the mutant. "equivalent": not tried, because no test can kill it.
    detail : str
        The first test that failed, or why the mutant is invalid.
    seed : int or None
        Seed of the tests of a killed mutant, as for `pytest --seed`.
    """

    result: str
    detail: str = ""
    seed: int | None = None


@dataclass(frozen=True)
class Stage:
    """A stage of a trial.

    Attributes
    ----------
    name : str
        Of the stage.
    run : callable
        Returns a verdict, or None when the next stage must decide. Raises nothing.
    seconds : float
        Processor time of the stage without a mutant.
    seed : int or None
        Seed of its tests.
    """

    name: str
    run: Callable[[], MutantVerdict | None]
    seconds: float = MIN_SECONDS
    seed: int | None = None


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
            if name.split(".")[0] in (PACKAGE, "bitlane", "bitlane_sim", "bitlane_verify"):
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
            _note(report, {"stage": stage.name, "seed": stage.seed})
            _limit(MIN_SECONDS + TIMES_LONGER * stage.seconds)
            verdict = stage.run()
            if verdict is not None:
                break
        _note(report, asdict(verdict or MutantVerdict("survived")))
    except BaseException as error:
        _note(report, {"result": "broken", "detail": repr(error)})
    finally:
        sys.stdout.flush()
        os._exit(0)


def finish(process: int, status: int, report: Path) -> MutantVerdict:
    """Return the verdict of a trial whose process ended. A process out of time, or crashed, is killed by its stage.

    Raises
    ------
    RuntimeError
        The trial itself failed, not a test.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)  # compilers that the process left behind
    notes = [json.loads(line) for line in report.read_text().splitlines()]
    begun = [note for note in notes if "stage" in note] or [{"stage": "start", "seed": None}]
    stage, seed = begun[-1]["stage"], begun[-1]["seed"]
    if notes and "result" in notes[-1]:
        verdict = MutantVerdict(**notes[-1])
        if verdict.result == "broken":
            raise RuntimeError(f"a trial failed: {verdict.detail}")
        return replace(verdict, seed=seed) if verdict.result == "killed" else verdict
    how = "timeout" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU else "crash"
    return MutantVerdict("killed", f"{stage}: {how}", seed)


def _note(report: Path, entry: dict[str, Any]) -> None:
    with report.open("a") as file:
        file.write(json.dumps(entry) + "\n")


def _limit(seconds: float) -> None:
    """Let the process use this much more processor time."""
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + seconds) + 1, resource.RLIM_INFINITY))


class _Watch:
    """A pytest plugin that runs cheap tests first, ends one that hangs, and keeps the first failure and all times."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self.failed = ""
        self.error: type[BaseException] | None = None
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._known = seconds

    @pytest.hookimpl(tryfirst=True)  # pytest then puts together the tests that share a fixture
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Called by pytest with the tests that it is about to run."""
        items.sort(key=lambda item: self._known.get(item.nodeid, 0.0))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Called by pytest before it sets a test up."""
        if item.nodeid in self._known:
            _limit(TEST_SECONDS + TIMES_LONGER * self._known[item.nodeid])

    def pytest_exception_interact(self, node: pytest.Item, call: Any) -> None:
        """Called by pytest when a test, or one of its fixtures, raises."""
        if not self.failed:
            self.failed, self.error = node.nodeid, call.excinfo.type

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest after the set-up, the call and the tear-down of each test."""
        self.seconds[report.nodeid] += report.duration


@dataclass(frozen=True)
class TestRun:
    """How tests ended.

    Attributes
    ----------
    failed : str
        The first test that failed; "" when none did.
    error : type or None
        The class of the exception that it raised.
    seconds : dict
        Of each test, by its name in pytest.
    """

    failed: str
    error: type[BaseException] | None
    seconds: dict[str, float]


def run_tests(
    root: Path,
    tests: list[str],
    keyword: str = "",
    seconds: Mapping[str, float] | None = None,
    seed: int | None = None,
) -> TestRun:
    """Run tests until one fails.

    Parameters
    ----------
    root : Path
        Root of the project.
    tests : list of str
        Files or tests, relative to it.
    keyword : str, default=""
        Run only the tests whose name matches this expression of pytest's `-k`; all when empty.
    seconds : mapping, optional
        Of each test in an earlier run: the cheap tests run first, and a test that takes far longer ends the process.
    seed : int, optional
        Of every test; by default each has a fresh one.
    """
    watch = _Watch(seconds or {})
    options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-c", str(root / "pyproject.toml")]
    options += ["-k", keyword] if keyword else []
    options += ["--seed", str(seed)] if seed is not None else []
    limit = resource.getrlimit(resource.RLIMIT_CPU)
    try:
        code = pytest.main([*options, "--rootdir", str(root), *(str(root / test) for test in tests)], plugins=[watch])
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, limit)  # instead of the limit of the last test
    if code != pytest.ExitCode.OK and not watch.failed:
        watch.failed = f"pytest: {code.name if isinstance(code, pytest.ExitCode) else code}"
    return TestRun(watch.failed, watch.error, dict(watch.seconds))


def baseline(
    sandbox: Sandbox, tests: list[str], prepare: Callable[[], None] = lambda: None, keyword: str = ""
) -> tuple[float, dict[str, float]]:
    """Run tests without a mutant.

    Returns
    -------
    seconds : float
        Processor time of all.
    each : dict
        Seconds of each test.

    Raises
    ------
    RuntimeError
        One of them fails.
    """
    folder = Path(tempfile.mkdtemp(prefix="baseline.", dir=sandbox.root.parent))
    report, log, times = (folder / name for name in ("report.json", "log", "times.json"))

    def run() -> MutantVerdict | None:
        result = run_tests(sandbox.root, tests, keyword)
        times.write_text(json.dumps(result.seconds))
        return MutantVerdict("killed", result.failed) if result.failed else None

    def ready() -> None:
        sandbox.activate(None)
        prepare()

    process = start(lambda: [Stage("baseline", run, 600)], ready, report, log)
    _, status, usage = os.wait4(process, 0)
    verdict = finish(process, status, report)
    if verdict.result != "survived":
        raise RuntimeError(f"{verdict.detail} fails without a mutant: see {log}")
    return usage.ru_utime + usage.ru_stime, json.loads(times.read_text())
