"""A release is made of a clean, dated commit; what fails leaves neither a tag nor files."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.helpers.places import ROOT

CHANGELOG = "# Changelog\n\n## 1.2.0\n\n- Faster.\n\n## 1.1.0\n\n- Older.\n"
CITATION = 'title: "A: B"\nversion: 1.2.0\ndate-released: 2026-12-01\n'


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    return importlib.import_module("release")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit that can be released as 1.2.0."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "a maintainer")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "maintainer@localhost")
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "CHANGELOG.md").write_text(CHANGELOG)
    (folder / "CITATION.cff").write_text(CITATION)
    (folder / ".gitignore").write_text("/dist/\n")
    git(folder, "init", "--quiet")
    commit(folder)
    return folder


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def commit(folder: Path) -> None:
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "a change")


def test_the_notes_are_the_page_of_the_version(release: ModuleType, clone: Path) -> None:
    assert release.check_commit(clone, "1.2.0") == "# bitlane 1.2.0\n\n- Faster.\n"


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        (
            "CHANGELOG.md",
            CHANGELOG.replace("1.2.0", "1.3.0"),
            "begins with '## 1.3.0': the first page must be '## 1.2.0'",
        ),
        ("CHANGELOG.md", CHANGELOG.replace("1.2.0", "1.2.0, not released"), "begins with '## 1.2.0, not released'"),
        ("CHANGELOG.md", "# Changelog\n", "CHANGELOG.md has no page"),
        ("CHANGELOG.md", CHANGELOG.replace("- Faster.\n", ""), "'## 1.2.0' of CHANGELOG.md is empty"),
        ("CITATION.cff", CITATION.replace("1.2.0", "1.1.0"), "CITATION.cff has version 1.1.0: write 1.2.0"),
        ("CITATION.cff", "version: 1.2.0\n", "needs 'date-released: YYYY-MM-DD', and has none"),
        ("CITATION.cff", "version: 1.2.0\ndate-released: soon\n", "needs 'date-released: YYYY-MM-DD', and has soon"),
        ("README.md", "git clone THIS" + "_REPOSITORY\n", "1 placeholders, the first in README.md:1: THIS"),
    ],
)
def test_an_unready_commit_is_refused(file: str, text: str, message: str, release: ModuleType, clone: Path) -> None:
    (clone / file).write_text(text)
    commit(clone)
    with pytest.raises(release.ReleaseError, match=message) as error:
        release.check_commit(clone, "1.2.0")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("version", ["", "1.2", "v1.2.0", "1.2.0rc1", "01.2.0"])
def test_a_version_has_three_numbers(
    version: str, release: ModuleType, clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release.main([version, "--root", str(clone), "--untested"]) == 1
    printed = capsys.readouterr().err
    assert printed == f"release: VERSION={version!r} is not of the form X.Y.Z: make release VERSION=0.1.0\n"


def test_a_changed_tree_and_a_tagged_version_are_refused(release: ModuleType, clone: Path) -> None:
    (clone / "left").touch()
    with pytest.raises(release.ReleaseError, match="1 files are not committed"):
        release.check_commit(clone, "1.2.0")
    (clone / "left").unlink()
    git(clone, "tag", "v1.2.0")
    with pytest.raises(release.ReleaseError, match=r"the tag v1\.2\.0 exists"):
        release.check_commit(clone, "1.2.0")


def test_a_folder_with_files_is_refused(release: ModuleType, clone: Path, tmp_path: Path) -> None:
    with pytest.raises(release.ReleaseError, match="is not empty"):
        release.make_release(clone, "1.2.0", tmp_path, tested=False)


def pretend_to_build(release: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(root: Path, commit: str, version: str, folder: Path) -> None:
        folder.mkdir()
        (folder / f"bitlane-{version}.tar.gz").write_text(commit)

    monkeypatch.setattr(release, "build", build)


@pytest.mark.parametrize("name", ["files/new", "clone/dist"])
def test_a_release_has_a_tag_and_files(
    name: str, release: ModuleType, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_to_build(release, monkeypatch)
    (clone / "dist").mkdir()
    (clone / "dist" / "of-make-dist").touch()
    folder = tmp_path / name
    release.make_release(clone, "1.2.0", folder, tested=False)
    assert sorted(path.name for path in folder.iterdir()) == ["bitlane-1.2.0.tar.gz", "notes.md"]
    head = git(clone, "rev-parse", "HEAD").strip()
    assert git(clone, "rev-list", "-1", "v1.2.0").strip() == head == (folder / "bitlane-1.2.0.tar.gz").read_text()


@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()])
def test_a_failure_leaves_neither_tag_nor_files(
    error: BaseException, release: ModuleType, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(built: Path, folder: Path) -> None:
        folder.mkdir()
        (folder / "half").touch()
        raise error

    pretend_to_build(release, monkeypatch)
    monkeypatch.setattr(release.shutil, "move", fail)
    kind = release.ReleaseError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(kind):
        release.make_release(clone, "1.2.0", tmp_path / "files", tested=False)
    assert git(clone, "tag") == ""
    assert not (tmp_path / "files").exists()


def test_a_failing_check_ends_the_release(release: ModuleType, clone: Path, tmp_path: Path) -> None:
    (clone / "Makefile").write_text("dist lowest:\n\t@exit 1\n")
    commit(clone)
    with pytest.raises(release.ReleaseError, match="make dist lowest failed"):
        release.make_release(clone, "1.2.0", tmp_path / "files")
    assert git(clone, "tag") == "" and not (tmp_path / "files").exists()


@pytest.mark.slow
def test_a_rehearsal(clone: Path, tmp_path: Path) -> None:
    """A fresh clone, dated, gives two files of each of the three distributions, and notes."""
    pytest.importorskip("build", reason="needs the extra `dist`")
    if not (ROOT / ".git").exists():
        pytest.skip("no clone: nothing to tag")
    fresh = tmp_path / "fresh"
    git(tmp_path, "clone", "--quiet", "--no-tags", str(ROOT), str(fresh))
    version = (fresh / "CHANGELOG.md").read_text().partition("\n## ")[2].partition("\n")[0]
    citation = fresh / "CITATION.cff"
    dated = [line for line in citation.read_text().splitlines() if not line.startswith("date-released")]
    citation.write_text("\n".join([*dated, "date-released: 2026-12-01", ""]))
    commit(fresh)
    folder = tmp_path / "files"
    command = [sys.executable, ".ci/release.py", version, "--to", str(folder), "--untested"]
    done = subprocess.run(command, cwd=fresh, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    names = {f"{name}-{version}" for name in ("bitlane", "bitlane_studies", "bitlane_verify")}
    expected = {f"{name}{end}" for name in names for end in (".tar.gz", "-py3-none-any.whl")} | {"notes.md"}
    assert {path.name for path in folder.iterdir()} == expected
    assert git(fresh, "tag").split() == [f"v{version}"]
    assert f"git push origin v{version}" in done.stdout
    shutil.rmtree(fresh)
