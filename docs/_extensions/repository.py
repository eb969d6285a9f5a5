"""What the site says about its repository: the versions that have sites, and the address on the web."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

DEVELOPMENT = "dev"
REMOTE = re.compile(r"(?:https://|git@|ssh://)(?:[^/@]*@)?([\w.-]+)[:/]([\w./~-]+?)(?:\.git)?/?")


def version_entries(release: str, tags: Sequence[str]) -> list[dict[str, str]]:
    """Return version and relative link of the site of each tag, and of the version that is built if it has no tag."""
    entries = [{"version": tag[1:], "url": f"../{tag}/"} for tag in tags]
    if all(entry["version"] != release for entry in entries):
        entries.insert(0, {"version": release, "url": f"../{DEVELOPMENT}/"})
    return entries


def release_tags(root: Path) -> list[str]:
    """Return the tags of releases, the newest first; none without git."""
    return _git(root, "tag", "--list", "v[0-9]*", "--sort=-version:refname").split()


def repository_url(root: Path) -> str | None:
    """Return the address of the repository on the web, or None.

    It is `repository-code` of `CITATION.cff` if that is there, and otherwise the remote `origin` of git, without the
    name and the password in it.
    """
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    if found := re.search(r'^repository-code: "?([^"\s]+)', citation, re.MULTILINE):
        return found[1]
    found = REMOTE.fullmatch(_git(root, "remote", "get-url", "origin").strip())
    return f"https://{found[1]}/{found[2]}" if found else None


def _git(root: Path, *command: str) -> str:
    """Return what git prints; nothing without git."""
    try:
        return subprocess.run(["git", *command], cwd=root, capture_output=True, text=True).stdout
    except OSError:
        return ""
