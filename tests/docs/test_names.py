"""Files, modules and identifiers that pages name in backquotes exist: a page that keeps an old name fails."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from tests.helpers.places import ROOT

SOURCES = ("host", "hw", "sim", "studies", "verify", "tests", "docs", "examples", "bitstreams", ".ci", ".github")
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if not {"api", "plots"} & set(page.parts)),
]
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"[\w.-]+(/[\w.-]+)+/?|[\w-]+\.(py|md|toml|cff|json|v|cpp|tcl)")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*(\.\w+)*(\(\))?")
PLACEHOLDER = re.compile(r"\bNAME")  # in the tables of CONTRIBUTING.md
OUTPUTS = {"build/docs", "switcher.json", "runs/demo", "runs/four-bits"}
OUTPUTS |= {"accelerator.tcl", "bitlane_accelerator.v", "kernel.xml", "package_xo.tcl"}  # of an export
# Symbols of equations, and names of Python, of scikit-learn and of the papers' code.
FOREIGN = {"A_j", "center_j", "scale_j", "check_estimator", "FutureWarning"}


@cache
def files() -> set[str]:
    top = [path for path in ROOT.iterdir() if path.is_file()]
    inner = [path for folder in SOURCES for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
    return {path.relative_to(ROOT).as_posix() for path in (*top, *inner)}


@cache
def words() -> set[str]:
    suffixes = {".py", ".toml", ".cpp", ".h", ".v", ".tcl"}
    text = [(ROOT / name).read_text(errors="ignore") for name in files() if Path(name).suffix in suffixes]
    return set(re.findall(r"\w+", "\n".join([*text, (ROOT / "Makefile").read_text()])))


def is_known(name: str) -> bool:
    """Whether the text between two backquotes, if it is a name at all, is one of this project."""
    if name in OUTPUTS | FOREIGN or PLACEHOLDER.search(name):
        return True
    if found := re.match(r"python -m (bitlane[\w.]*|tests[\w.]*)", name):
        module = found[1].replace(".", "/")
        return any(is_known(f"{module}{end}") for end in (".py", "/__main__.py"))
    if PATH.fullmatch(name):
        return any(f"/{path}".endswith("/" + name.rstrip("/")) for path in files())
    if IDENTIFIER.fullmatch(name):
        return set(re.findall(r"\w+", name)) <= words()
    return True


def names(page: Path) -> set[str]:
    return set(re.findall(r"(?<!`)`([^`\n]+)`(?!`)", FENCE.sub("", page.read_text())))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_names_in_pages_exist(page: Path) -> None:
    assert sorted(name for name in names(page) if not is_known(name)) == []


@pytest.mark.parametrize(
    ("known", "unknown"),
    [
        ("host/bitlane/driver/driver.py", "host/bitlane/driver.py"),
        ("driver.py", "requester.py"),
        ("python -m bitlane_verify.formal --list", "python -m bitlane_sim.formality"),
        ("AlphaBetaModel.prefers_reduce_scatter", "LinkModel.by_" + "owners"),
        ("burst_generator_live", "requester" + "_live"),
        ("x = 1 / 2", "no_such" + "_name()"),
    ],
)
def test_old_names_are_found(known: str, unknown: str) -> None:
    assert is_known(known)
    assert not is_known(unknown)


def test_pages_have_names() -> None:
    assert len(PAGES) > 20
    assert sum(len(names(page)) for page in PAGES) > 500
