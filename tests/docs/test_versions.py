"""What the site knows about its repository."""

from __future__ import annotations

import runpy
import subprocess
from pathlib import Path

import pytest
from tests.helpers.places import ROOT

REPOSITORY = runpy.run_path(str(ROOT / "docs" / "_extensions" / "repository.py"))


def git(folder: Path, *command: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@localhost", *command], cwd=folder, check=True)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "a")
    (tmp_path / "CITATION.cff").write_text("version: 0.1.0\n")
    return tmp_path


def test_the_newest_release_comes_first(clone: Path) -> None:
    for tag in ("v0.2.0", "v0.10.0", "v0.9.1", "nightly"):
        git(clone, "tag", tag)
    assert REPOSITORY["release_tags"](clone) == ["v0.10.0", "v0.9.1", "v0.2.0"]


def test_a_folder_without_git_has_no_releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert REPOSITORY["release_tags"](tmp_path) == []
    monkeypatch.setenv("PATH", "")
    assert REPOSITORY["release_tags"](tmp_path) == []


def test_the_built_version_is_listed_once() -> None:
    entries = REPOSITORY["version_entries"]
    assert entries("0.1.0.dev3", []) == [{"version": "0.1.0.dev3", "url": "../dev/"}]
    assert entries("0.2.0", ["v0.2.0", "v0.1.0"]) == [
        {"version": "0.2.0", "url": "../v0.2.0/"},
        {"version": "0.1.0", "url": "../v0.1.0/"},
    ]
    assert [entry["version"] for entry in entries("0.3.0.dev1", ["v0.2.0"])] == ["0.3.0.dev1", "0.2.0"]


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://host.test/group/name.git", "https://host.test/group/name"),
        ("https://user:secret@host.test/group/name", "https://host.test/group/name"),
        ("git@host.test:group/name.git", "https://host.test/group/name"),
        ("ssh://git@host.test/group/sub/name.git", "https://host.test/group/sub/name"),
        ("/home/somebody/name", None),
        ("file:///home/somebody/name", None),
    ],
)
def test_the_address_comes_from_the_remote_without_a_password(clone: Path, remote: str, address: str | None) -> None:
    git(clone, "remote", "add", "origin", remote)
    assert REPOSITORY["repository_url"](clone) == address


def test_the_citation_comes_first(clone: Path) -> None:
    assert REPOSITORY["repository_url"](clone) is None
    git(clone, "remote", "add", "origin", "https://host.test/group/fork")
    (clone / "CITATION.cff").write_text('repository-code: "https://host.test/group/name"\n')
    assert REPOSITORY["repository_url"](clone) == "https://host.test/group/name"
