"""Make a release: `make release VERSION=0.1.0 [RELEASE_TO=folder]`. Nothing leaves this machine.

The commit must be clean, have a page `## VERSION` at the head of CHANGELOG.md, the version and its date in CITATION.cff
and no placeholder, and pass `make dist` and `make lowest`. Then a clone of it is tagged and builds sdist and wheel of
the three distributions. Only when all of them are there does this repository get the tag, and the folder (default:
dist/) the files and the notes. What a failure leaves behind is the repository as it was.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from placeholders import find_placeholders

ROOT = Path(__file__).resolve().parents[1]
DISTRIBUTIONS = {"bitlane": ".", "bitlane_studies": "studies", "bitlane_verify": "verify"}  # and their folders
NOTES = "notes.md"
PUBLISH = """nothing was published. The commands that would:
  git push origin v{version}
  python -m pip install twine && python -m twine upload {folder}/*.whl {folder}/*.tar.gz
  gh release create v{version} --notes-file {folder}/{notes} {folder}/*.whl {folder}/*.tar.gz"""


class ReleaseError(Exception):
    """Why there is no release; one line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the release, or print the reason for its failure in one line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("version")
    parser.add_argument("--to", type=Path, default=ROOT / "dist", metavar="FOLDER")
    parser.add_argument("--root", type=Path, default=ROOT, help="the clone (default: the one of this file)")
    parser.add_argument("--untested", action="store_true", help="skip `make dist` and `make lowest`: for a rehearsal")
    options = parser.parse_args(arguments)
    try:
        make_release(options.root.resolve(), options.version, options.to.resolve(), tested=not options.untested)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(PUBLISH.format(version=options.version, folder=options.to, notes=NOTES))
    return 0


def make_release(root: Path, version: str, folder: Path, tested: bool = True) -> None:
    """Check the commit, build from its tag, then tag it and fill `folder`. Raise ReleaseError if any of it fails."""
    notes = check_commit(root, version)
    commit = _git(root, "rev-parse", "HEAD")
    ours = folder == root / "dist"  # `make dist` empties it, too
    if not ours and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ReleaseError(f"{folder} is not empty: give another folder, RELEASE_TO=...")
    if tested:
        _run(root, "make", "dist", "lowest")
    with tempfile.TemporaryDirectory() as temporary:
        built = Path(temporary) / "built"
        build(root, commit, version, built)
        (built / NOTES).write_text(notes)
        if ours:
            shutil.rmtree(folder, ignore_errors=True)
        publish(root, commit, version, built, folder)
    for path in sorted(folder.iterdir()):
        print(f"{path}  {path.stat().st_size:,} bytes")


def check_commit(root: Path, version: str) -> str:
    """Return the notes of `version`. Raise ReleaseError unless the commit is one that can be released."""
    if not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", version):
        raise ReleaseError(f"VERSION={version!r} is not of the form X.Y.Z: make release VERSION=0.1.0")
    if changed := _git(root, "status", "--porcelain"):
        raise ReleaseError(f"{len(changed.splitlines())} files are not committed: commit or stash them")
    if _git(root, "tag", "--list", f"v{version}"):
        raise ReleaseError(f"the tag v{version} exists: choose the next version")
    notes = changelog_page((root / "CHANGELOG.md").read_text(), version)
    check_citation((root / "CITATION.cff").read_text(), version)
    if placeholders := find_placeholders(root):
        raise ReleaseError(f"{len(placeholders)} placeholders, the first in {placeholders[0]}")
    return notes


def changelog_page(changelog: str, version: str) -> str:
    """Return the page of `version`, which must be the first of the changelog, as Markdown of its own."""
    pages = re.split(r"^## (.*)\n", changelog, flags=re.MULTILINE)
    if len(pages) < 3 or pages[1].strip() != version:
        first = f"begins with '## {pages[1]}'" if len(pages) > 1 else "has no page"
        raise ReleaseError(f"CHANGELOG.md {first}: the first page must be '## {version}'")
    if not (text := pages[2].strip()):
        raise ReleaseError(f"the page '## {version}' of CHANGELOG.md is empty")
    return f"# bitlane {version}\n\n{text}\n"


def check_citation(citation: str, version: str) -> None:
    """Raise ReleaseError unless CITATION.cff names the version and the day of its release."""
    values = dict(re.findall(r"""^([\w-]+): ["']?([^"'\n]*)["']?$""", citation, re.MULTILINE))
    if (cited := values.get("version")) != version:
        raise ReleaseError(f"CITATION.cff has version {cited}: write {version}")
    released = values.get("date-released", "")
    try:
        date.fromisoformat(released)
    except ValueError:
        raise ReleaseError(f"CITATION.cff needs 'date-released: YYYY-MM-DD', and has {released or 'none'}") from None


def build(root: Path, commit: str, version: str, folder: Path) -> None:
    """Build sdist and wheel of the three distributions from the tag, in a clone that alone has it."""
    with tempfile.TemporaryDirectory() as temporary:
        clone = Path(temporary) / "clone"
        _run(root, "git", "clone", "--quiet", str(root), str(clone))
        _run(clone, "git", "checkout", "--quiet", commit)
        _run(clone, "git", "tag", f"v{version}")
        for source in DISTRIBUTIONS.values():
            _run(clone, sys.executable, "-m", "build", "--outdir", str(folder), str(clone / source))
    expected = {f"{name}-{version}{end}" for name in DISTRIBUTIONS for end in ("-py3-none-any.whl", ".tar.gz")}
    if (names := {path.name for path in folder.iterdir()}) != expected:
        raise ReleaseError(f"the build made {sorted(names)}, not {sorted(expected)}")


def publish(root: Path, commit: str, version: str, built: Path, folder: Path) -> None:
    """Tag the commit and move the files to `folder`: both, or neither."""
    _run(root, "git", "tag", "--annotate", f"v{version}", "--message", f"bitlane {version}", commit)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if folder.exists():
            folder.rmdir()  # it is empty
        shutil.move(built, folder)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        _git(root, "tag", "--delete", f"v{version}")
        if isinstance(error, OSError):
            raise ReleaseError(f"{folder} cannot be written: {error}") from None
        raise


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"git {arguments[0]} failed: {' '.join(done.stderr.split())}")
    return done.stdout.strip()


def _run(root: Path, *command: str) -> None:
    print("$", *command, flush=True)
    if subprocess.run(command, cwd=root).returncode:
        raise ReleaseError(f"{' '.join(command[:3])} failed: its messages are above")


if __name__ == "__main__":
    raise SystemExit(main())
