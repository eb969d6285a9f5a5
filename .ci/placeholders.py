"""Words that stand for something not yet written, in any tracked text file: `python .ci/placeholders.py` lists them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Joined here, so that this file has none of them.
WORDS = ["THIS_" + "REPOSITORY", "TO" + "DO", "FIX" + "ME", "XX" + "X", "TB" + "D", "lorem" + " ipsum"]
HOSTS = ["example" + ".com", "your" + "-org", "your" + "-name", "OWNER" + "/REPO"]
PLACEHOLDER = re.compile(rf"\b(?:{'|'.join(map(re.escape, WORDS))})\b|{'|'.join(map(re.escape, HOSTS))}")


def find_placeholders(root: Path) -> list[str]:
    """Return `file:line: placeholder` for each in the tracked text files of a repository."""
    names = subprocess.check_output(["git", "ls-files", "-z"], cwd=root, text=True).split("\0")
    return [each for name in names if name for each in _in_file(root, name)]


def _in_file(root: Path, name: str) -> Iterator[str]:
    try:
        text = (root / name).read_text()
    except (UnicodeDecodeError, FileNotFoundError):  # a picture; a file that the work tree lacks
        return
    for number, line in enumerate(text.splitlines(), 1):
        for match in PLACEHOLDER.finditer(line):
            yield f"{name}:{number}: {match[0]}"


if __name__ == "__main__":
    results = find_placeholders(ROOT)
    print("\n".join(results) or "no placeholders")
    raise SystemExit(bool(results))
