"""Data sets and files on the command line: a one-line error for each bad one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pandas")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

QUICK = ["--device", "emulator", "--epochs", "2"]


@pytest.mark.parametrize("command", ["train", "compare"])
@pytest.mark.parametrize(
    ("text", "part"),
    [
        (None, "no file t.csv"),
        ("", "t.csv is empty"),
        ("a,y\n", "no row"),
        ("a,y\n1,2\n", "one row"),
        ("a,z\n1,2\n3,4\n", "no column 'y'"),
        ("a,y\n1,2\ntwo,4\n5,6\n", "column 'a' holds text: 'two' in row 2"),
        ("a,y\n1,2\n,4\n5,6\n", "column 'a' has no value (NaN) in row 2"),
        ("a,y\n1,2\ninf,4\n5,6\n", "column 'a' has the value inf in row 2"),
        ("a,y\n1,2\n3,4,5\n", "not a regular table"),
        ("a,y\n7,2\n7,4\n7,6\n", "every column is constant"),
        ("a,y\n1.7e308,1\n-1.7e308,2\n1.7e308,3\n", "overflow"),
    ],
)
def test_bad_files_are_one_line_errors(
    here: Path, fails: Callable[..., str], command: str, text: str | None, part: str
) -> None:
    if text is not None:
        (here / "t.csv").write_text(text)
    assert part in fails(command, "t.csv", "--target", "y", "--task", "regression", *QUICK, "--out", "run")


def test_unknown_sources_and_commands(fails: Callable[..., str], here: Path) -> None:
    assert "no file or data set 'digit'; did you mean digits?" in fails("train", "digit")
    assert "see bitlane datasets" in fails("train", "qqq")
    (here / "t.xlsx").touch()
    assert "the suffix .xlsx" in fails("train", "t.xlsx")
    assert "omit --target" in fails("train", "digits", "--target", "y")
    assert "no class '11'" in fails("compare", "digits", "--positive", "11", *QUICK)
    assert "invalid choice: 'trian'" in fails("trian")
    assert "COMMAND" in fails()


def test_a_comparison_needs_two_classes(here: Path, fails: Callable[..., str]) -> None:
    (here / "t.csv").write_text("a,y\n1,yes\n2,yes\n3,yes\n")
    assert "one class" in fails("train", "t.csv", "--target", "y", *QUICK)
    assert "a comparison needs two classes" in fails("compare", "t.csv", "--target", "y", *QUICK)
