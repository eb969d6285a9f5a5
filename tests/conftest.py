"""What all tests share: fresh seeds that can be repeated, the folder of the data sets, the list of tests left out."""

from __future__ import annotations

import os
import re
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("torch") is not None:
    import tests.helpers.devices  # noqa: F401  # before a test imports Triton, which its interpreter needs

SEED = pytest.StashKey[int]()
LIBRARIES = ("torch", "pynq", "litex")  # a file marked with one of these is collected where that library is installed
MARKED = re.compile(rf"^pytestmark = .*?pytest\.mark\.({'|'.join(LIBRARIES)})\b", re.MULTILINE)
SELECTED = re.compile(rf"(?<!not )\b({'|'.join(LIBRARIES)})\b")  # in `-m`
LEFT = pytest.StashKey[dict[str, Counter[str]]]()  # reason -> folder or file -> files or tests that did not run

# Property tests search for inputs. `make test` searches a tenth, as `--hypothesis-profile quick`.
if find_spec("hypothesis") is not None:
    from hypothesis import HealthCheck, settings

    PROFILE = settings(
        database=None,  # a failure prints the smallest failing example and a line that replays it
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    settings.register_profile("thorough", PROFILE, max_examples=4000)
    settings.register_profile("quick", PROFILE, max_examples=400)
    settings.load_profile("thorough")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of a library that is not installed; with `-m torch` and the like, all other files."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    found = MARKED.search(collection_path.read_text())
    if selected := SELECTED.search(config.option.markexpr):
        return found is None or found[1] != selected[1]
    if found is None or find_spec(found[1]) is not None:
        return None
    folder = collection_path.parent.relative_to(config.rootpath).as_posix()
    config.stash.setdefault(LEFT, {}).setdefault(f"files that need {found[1]}", Counter())[folder] += 1
    return True


# --- what a run with `-m "not slow"` leaves for `make check`
def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow"):
            file = item.nodeid.partition("::")[0]
            item.config.stash.setdefault(LEFT, {}).setdefault("slow tests", Counter())[file] += 1


def pytest_collection_finish(session: pytest.Session) -> None:
    """Count the property tests that search less than `make check` lets them."""
    if session.config.getoption("--hypothesis-profile", None) == "quick":
        found = Counter(
            item.nodeid.partition("::")[0] for item in session.items if item.get_closest_marker("hypothesis")
        )
        session.config.stash.setdefault(LEFT, {})["property tests, run here with a tenth of their examples"] = found


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process of pytest-xdist reports to the one that started it."""
    if hasattr(session.config, "workeroutput"):
        left = session.config.stash.get(LEFT, {})
        session.config.workeroutput["left"] = {reason: dict(places) for reason, places in left.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error) -> None:
    """Take the report of one process: all of them collect the same tests."""
    left = getattr(node, "workeroutput", {}).get("left", {})
    node.config.stash[LEFT] = {reason: Counter(places) for reason, places in left.items()}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """List what a run with `-m 'not slow'` left out."""
    if "not slow" not in config.option.markexpr:
        return
    terminalreporter.section("left for `make check`")
    for reason, places in config.stash.get(LEFT, {}).items():
        terminalreporter.line(f"{places.total()} {reason}:")
        for place, count in sorted(places.items()):
            terminalreporter.line(f"{count:6} {place}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seed",
        type=int,
        default=None,
        metavar="N",
        help="use this seed in every test instead of a fresh one in each",
    )


def pytest_report_header(config: pytest.Config) -> str:
    given = config.getoption("--seed")
    return f"seeds: {given} (--seed)" if given is not None else "seeds: a fresh one in each test; --seed N replays one"


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A seed for everything random in this test: fresh, or `--seed`; a failure's report shows it."""
    given: int | None = request.config.getoption("--seed")
    value = int.from_bytes(os.urandom(4), "little") if given is None else given
    request.node.stash[SEED] = value
    return value


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    if report.failed and SEED in item.stash:
        report.sections.append(("seed", f"replay with: --seed {item.stash[SEED]}"))
    return report


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the real data sets; skips where $BITLANE_DATA does not name one."""
    named = os.environ.get("BITLANE_DATA")
    if not named:
        pytest.skip("needs the real data sets: set BITLANE_DATA to their folder")
    folder = Path(named)
    if not folder.is_dir():
        pytest.fail(f"BITLANE_DATA={named} is no folder")
    return folder.resolve()
