"""The test plan names every test, and nothing but tests."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase

from tests.helpers.places import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def all_tests() -> set[str]:
    """`tests/folder/file.py::test_name` of each test function."""
    return {
        f"{path.relative_to(ROOT).as_posix()}::{node.name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def orphans(plan: dict[str, dict[str, list[str]]], tests: Iterable[str]) -> tuple[list[str], list[str]]:
    """Tests that no feature names, and what features name that no test is called."""
    names = {
        pattern: pattern if "::" in pattern else f"{pattern}::*" for each in plan.values() for pattern in each["tests"]
    }
    left = set(tests)
    empty = []
    for pattern, whole in names.items():
        found = {test for test in tests if fnmatchcase(test, whole)}
        left -= found
        if not found:
            empty.append(pattern)
    return sorted(left), sorted(empty)


def test_every_test_has_a_feature_and_every_feature_its_tests() -> None:
    plan = tomllib.loads((ROOT / "testplan.toml").read_text())
    assert all(feature["what"] and feature["tests"] for feature in plan.values())
    assert orphans(plan, all_tests()) == ([], [])


def test_orphans_are_found() -> None:
    plan = {
        "a": {"tests": ["tests/a.py", "tests/gone.py"]},
        "b": {"tests": ["tests/b.py::test_x*", "tests/b.py::test_z"]},
    }
    tests = ["tests/a.py::test_a", "tests/b.py::test_x1", "tests/b.py::test_y"]
    assert orphans(plan, tests) == (["tests/b.py::test_y"], ["tests/b.py::test_z", "tests/gone.py"])
