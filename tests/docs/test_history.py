"""The nightly figures: a file a day, and the page that draws them."""

from __future__ import annotations

import ast
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.helpers.places import ROOT


def record(day: str, **changes: Any) -> dict[str, Any]:
    """A file's content."""
    figures = {"proofs": {"proved": 3, "tried": 4, "total": 46}, "fit": {"data": "MNIST", "ratio": 0.35}, "soak": None}
    return {
        "format": 1,
        "date": day,
        "commit": "0123456789abcdef",
        "minutes": 2.0,
        "cpu": "a processor, 2 cores",
        "versions": {},
        "figures": figures,
        "reasons": {"soak": "no compiler"},
    } | changes


def write(folder: Path, content: Any, name: str = "2026-12-01.json") -> None:
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture
def nightly(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    return importlib.import_module("nightly")


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_extensions"))
    return importlib.import_module("nightly_figures")


def test_the_committed_files_are_valid(history: ModuleType) -> None:
    assert history.read_history(ROOT / "docs" / "history")


def test_one_day_is_a_table_and_two_are_curves(history: ModuleType, tmp_path: Path) -> None:
    write(tmp_path, record("2026-12-01"))
    days = history.read_history(tmp_path)
    heading, row = history.table(days)
    assert row[:3] == ["2026-12-01", "0123456789", "3 of 4"]
    assert row[heading.index("random runs, mismatches")] == "-"
    assert history.curves(days) == []
    write(tmp_path, record("2026-12-03", figures={"fit": {"ratio": 0.25}}), "2026-12-03.json")
    days = history.read_history(tmp_path)
    assert [row[0] for row in history.table(days)[1:]] == ["2026-12-03", "2026-12-01"]
    (curve,) = history.curves(days)
    assert "scikit-learn" in curve and "2026-12-01: 0.35" in curve and "2026-12-03: 0.25" in curve


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "2026-12-01.json is not JSON: "),
        ([1], "not a history file of format 1: `make nightly` writes one"),
        (record("2026-12-01", format=2), "not a history file of format 1"),
        (record("2026-12-01", cpu=None), "has no valid 'cpu'"),
        (record("2026-12-01", figures={"soak": 3}), "figure 'soak' is neither null nor an object"),
        (record("2026-12-01", reasons={}), "figure 'soak' is null without a reason"),
        (record("2026-12-02"), "has the date 2026-12-02"),
    ],
)
def test_a_damaged_file_is_one_line(content: Any, message: str, history: ModuleType, tmp_path: Path) -> None:
    write(tmp_path, content)
    with pytest.raises(ValueError, match=message) as error:
        history.read_history(tmp_path)
    assert "\n" not in str(error.value)


def test_a_file_is_named_by_its_day(history: ModuleType, tmp_path: Path) -> None:
    write(tmp_path, record("soon"), "soon.json")
    with pytest.raises(ValueError, match=r"soon.json is not named by a date"):
        history.read_history(tmp_path)


@pytest.mark.parametrize(
    ("program", "numbers", "reason"),
    [
        ("print('noise'); print('{\"runs\": 3}')", {"runs": 3}, ""),
        ("raise OSError('no\\ncompiler')", None, "compiler"),
        ("raise SystemExit(3)", None, "exit status 3"),
        ("import time; time.sleep(60)", None, "took longer than 0.02 minutes"),
    ],
)
def test_a_figure_or_the_reason_why_not(program: str, numbers: object, reason: str, nightly: ModuleType) -> None:
    assert nightly.measure([sys.executable, "-c", program], 0.02) == (numbers, reason)


def test_a_night_is_one_file(
    nightly: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(command: list[str], minutes: float) -> tuple[dict[str, int] | None, str]:
        return (None, "no compiler") if "soak" in command else ({"proved": 1}, "")

    monkeypatch.setattr(nightly, "measure", measure)
    assert nightly.main(["--minutes", "2", "--to", str(tmp_path)]) == 0
    (path,) = tmp_path.iterdir()
    written = json.loads(path.read_text())
    assert written["date"] == path.stem and set(written["figures"]) == set(nightly.FIGURES)
    assert written["figures"]["soak"] is None and written["reasons"] == {"soak": "no compiler"}
    assert "soak: no compiler" in capsys.readouterr().out


def test_mutants_are_those_of_the_record(nightly: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "mutation.md").read_text()
    figures = nightly.mutants(1.0)
    assert f"{figures['killed']} of {figures['total']} mutants killed" in page


def test_figures_and_columns_have_the_same_names(history: ModuleType, nightly: ModuleType) -> None:
    figures: dict[str, Callable[..., object]] = nightly.FIGURES
    assert {figure for _, figure, *_ in history.COLUMNS} == set(figures)
    assert history.FORMAT == nightly.FORMAT


def test_what_the_figures_import_exists() -> None:
    """They import where they measure, so a renamed function would only be a null of the night."""
    tree = ast.parse((ROOT / ".ci" / "nightly.py").read_text())
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and "bitlane" in str(node.module)]
    assert len(imported) > 8
    for node in imported:
        module = importlib.import_module(str(node.module))
        for each in node.names:
            assert hasattr(module, each.name) or importlib.import_module(f"{node.module}.{each.name}")
