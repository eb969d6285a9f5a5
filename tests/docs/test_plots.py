"""The scripts of the documentation's plots: each writes its figure and its table, and a page shows both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.places import ROOT

FOLDER = ROOT / "docs" / "plots"
GUIDE = ROOT / "docs" / "guides" / "when-to-use-what.md"
FIRST_PAGE = ROOT / "docs" / "index.md"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "common")


def test_there_are_six() -> None:
    assert NAMES == ["bits", "draws", "learning_rate", "sampling", "thesis", "which_data"]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_figure_and_table(name: str) -> None:
    page = (FIRST_PAGE if name == "thesis" else GUIDE).read_text()
    assert f"plots/{name}.svg" in page and f"plots/{name}.md" in page
    table = (FOLDER / f"{name}.md").read_text()
    assert "Mean of seeds 0, 1, 2." in table and f"`docs/plots/{name}.py`" in table
    assert "<svg" in (FOLDER / f"{name}.svg").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_script_runs(name: str, tmp_path: Path) -> None:
    """At a toy size, on bundled data; the committed files stay as they are."""
    command = [sys.executable, FOLDER / f"{name}.py", "--quick", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / f"{name}.md").read_text()
    assert text.strip() == done.stdout.strip()
    assert "nan" not in text and "Mean of seeds 0." in text
    assert (tmp_path / f"{name}.svg").stat().st_size > 5_000
