"""What all tests share: seeds that are fresh, shown and replayable, and the place of the data sets."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

SEED = pytest.StashKey[int]()
LIBRARIES = ("torch", "pynq")  # a file marked with one of these is collected where that library is installed
MARKED = re.compile(rf"^pytestmark = .*?pytest\.mark\.({'|'.join(LIBRARIES)})\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of a library that is not installed; with `-m torch` or `-m pynq`, all other files."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    found = MARKED.search(collection_path.read_text())
    asked = config.option.markexpr
    if asked in LIBRARIES:
        return found is None or found[1] != asked
    return True if found is not None and find_spec(found[1]) is None else None


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
