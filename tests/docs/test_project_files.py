"""CITATION.cff, the release and the workflow name what the project is."""

from __future__ import annotations

import re
import sys

from tests.helpers.places import ROOT

from bitlane import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_versions_agree() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert PROJECT["project"]["version"] == __version__
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == __version__
    assert re.search(r"^license: (.*)$", citation, re.MULTILINE)[1] == PROJECT["project"]["license"]
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_pythons_agree() -> None:
    """The classifiers are what `make dist` tries; the oldest is the limit for pip, ruff and mypy."""
    project, tool = PROJECT["project"], PROJECT["tool"]
    promised = re.findall(r"Python :: 3\.(\d+)", " ".join(project["classifiers"]))
    assert promised == [str(minor) for minor in range(int(promised[0]), int(promised[-1]) + 1)]
    assert project["requires-python"] == f">=3.{promised[0]}"
    assert tool["ruff"]["target-version"] == f"py3{promised[0]}"
    assert tool["mypy"]["python_version"] == f"3.{promised[0]}"
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert set(re.findall(r'"3\.(\d+)"', workflow)) <= set(promised)


def test_the_sdist_names_files_that_exist() -> None:
    include = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert [path for path in include if not (ROOT / path.lstrip("/")).exists()] == []


def test_the_workflow_runs_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = re.findall(r"run: make (.*)", (ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert {"lint", "test", "docs"} == {target for line in called for target in line.split()} <= targets


def test_every_public_room_is_in_the_api_reference() -> None:
    """`docs/conf.py` lists the rooms, `docs/reference/api.md` says what each is for."""
    configured = (ROOT / "docs" / "conf.py").read_text().partition("public_rooms = [")[2].partition("]")[0]
    rooms = re.findall(r'"(bitlane[.\w]*)"', configured)
    page = (ROOT / "docs" / "reference" / "api.md").read_text()
    assert len(rooms) > 10
    assert re.findall(r"^\| \[(bitlane[.\w]*)\]", page, re.MULTILINE) == re.findall(r"^api/(.*)$", page, re.MULTILINE)
    assert set(re.findall(r"^api/(.*)$", page, re.MULTILINE)) == set(rooms)
