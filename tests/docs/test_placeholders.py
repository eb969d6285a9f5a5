"""No tracked text file has a word that stands for something not yet written."""

from __future__ import annotations

import runpy
import subprocess
from pathlib import Path

import pytest
from tests.helpers.places import ROOT

PLACEHOLDERS = runpy.run_path(str(ROOT / ".ci" / "placeholders.py"))


def test_no_file_has_a_placeholder() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no clone: which files are tracked is not known")
    assert PLACEHOLDERS["find_placeholders"](ROOT) == []


@pytest.mark.parametrize("word", PLACEHOLDERS["WORDS"] + PLACEHOLDERS["HOSTS"])
def test_a_placeholder_is_found_with_its_line(word: str, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(f"# Title\n\nSee {word}, please.\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff" + word.encode())
    subprocess.run("git init --quiet && git add .", shell=True, cwd=tmp_path, check=True)
    assert PLACEHOLDERS["find_placeholders"](tmp_path) == [f"page.md:3: {word}"]


@pytest.mark.parametrize("line", ["a size of XXXL", "PHOTODOC", "for example, compare"])
def test_longer_words_are_none(line: str) -> None:
    assert PLACEHOLDERS["PLACEHOLDER"].search(line) is None
