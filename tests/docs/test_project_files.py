"""CITATION.cff, the release and the workflow name what the project is."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.helpers.places import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_versions_agree() -> None:
    """CITATION.cff names the newest version of the changelog, and both name the tag of a release."""
    citation = yaml_values("CITATION.cff")
    newest = re.findall(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert citation["version"] == newest
    assert citation["license"] == PROJECT["project"]["license"]
    git = ["git", "tag", "--points-at", "HEAD", "v[0-9]*"]
    tags = subprocess.run(git, cwd=ROOT, capture_output=True, text=True).stdout.split()
    assert tags in ([], [f"v{newest}"])


def yaml_values(name: str) -> dict[str, str]:
    """The values of one word at the top level of a YAML file."""
    return dict(re.findall(r"^([\w-]+): (\S+)$", (ROOT / name).read_text(), re.MULTILINE))


def test_the_three_distributions_have_one_way_to_a_version() -> None:
    ours = PROJECT["tool"]["hatch"]["version"]
    for folder in ("studies", "verify"):
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())
        theirs = project["tool"]["hatch"]["version"]
        options = theirs.pop("raw-options")
        assert options.pop("root") == options.pop("fallback_root") == ".."
        assert theirs | {"raw-options": options} == ours
        assert project["build-system"] == PROJECT["build-system"]
        assert (ROOT / folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_pythons_agree() -> None:
    """The classifiers are what `make dist` tries; the oldest is the limit for pip, ruff and mypy."""
    project, tool = PROJECT["project"], PROJECT["tool"]
    promised = re.findall(r"Python :: 3\.(\d+)", " ".join(project["classifiers"]))
    assert promised == [str(minor) for minor in range(int(promised[0]), int(promised[-1]) + 1)]
    assert project["requires-python"] == f">=3.{promised[0]}"
    assert tool["ruff"]["target-version"] == f"py3{promised[0]}"
    assert tool["mypy"]["python_version"] == f"3.{promised[0]}"
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    matrix = re.search(r"^ +python: \[(.*)\]$", workflow, re.MULTILINE)[1]
    assert re.findall(r'"3\.(\d+)"', matrix) == promised
    installed = re.findall(r"^ +3\.(\d+)$", workflow, re.MULTILINE)  # for `make dist`
    assert sorted(installed, key=int) == promised


def test_the_sdist_names_files_that_exist() -> None:
    include = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert [path for path in include if not (ROOT / path.lstrip("/")).exists()] == []


def test_the_workflow_runs_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = "".join((ROOT / ".github" / "workflows" / name).read_text() for name in ("ci.yml", "nightly.yml"))
    lines = re.findall(r"run: make ([a-z]+)", text) + re.findall(r'target: \[?"([a-z ]+)"', text)
    called = {target for line in lines for target in line.split()}
    assert {"lint", "test", "torch", "lowest", "formal", "docs", "dist", "nightly"} == called <= targets


def test_every_public_room_is_in_the_api_reference() -> None:
    """`docs/conf.py` lists the rooms, `docs/reference/api.md` says what each is for."""
    configured = (ROOT / "docs" / "conf.py").read_text().partition("public_rooms = [")[2].partition("]")[0]
    rooms = re.findall(r'"(bitlane[.\w]*)"', configured)
    page = (ROOT / "docs" / "reference" / "api.md").read_text()
    assert len(rooms) > 10
    assert re.findall(r"^\| \[(bitlane[.\w]*)\]", page, re.MULTILINE) == re.findall(r"^api/(.*)$", page, re.MULTILINE)
    assert set(re.findall(r"^api/(.*)$", page, re.MULTILINE)) == set(rooms)
