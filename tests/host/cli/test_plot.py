"""`bitlane plot`: figures from a run folder, and errors for damaged folders."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bitlane.cli.main import main
from bitlane.reporting import records

pytest.importorskip("pandas")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

QUICK = ["--device", "emulator", "--epochs", "2"]


def test_plot_draws_again(prices: Path, drawn: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(prices), "--target", "price", *QUICK, "--out", "run"]) == 0
    for png in Path("run").glob("*.png"):
        png.unlink()
    capsys.readouterr()
    assert main(["plot", "run"]) == 0
    assert capsys.readouterr().out.split() == ["run/loss.png", "run/loss-bytes.png"]
    assert sorted(os.listdir("run")) == ["checkpoint.npz", "loss-bytes.png", "loss.png", "model.npz", "run.jsonl"]


def damaged(change: Callable[[list[str]], list[str]]) -> None:
    path = Path("run/run.jsonl")
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")


def stale(lines: list[str]) -> list[str]:
    return [json.dumps({**json.loads(lines[0]), "format": 99}), *lines[1:]]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda lines: lines[:-1], "ends too early, after line"),
        (lambda lines: [lines[0], lines[1][:9], *lines[2:]], "damaged in line 2"),
        (stale, "format 99"),
        (lambda lines: ["{}"], "not a bitlane run"),
        (
            lambda lines: [json.dumps({"kind": "run", "format": records.FORMAT}), *lines[1:]],
            "lacks what the plots show",
        ),
    ],
)
def test_damaged_run_folders_are_errors(
    prices: Path,
    fails: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    change: Callable[[list[str]], list[str]],
    part: str,
) -> None:
    assert main(["train", str(prices), "--target", "price", *QUICK, "--out", "run"]) == 0
    capsys.readouterr()
    damaged(change)
    assert part in fails("plot", "run")


def test_plot_of_a_missing_or_empty_folder(here: Path, fails: Callable[..., str]) -> None:
    assert "no run folder" in fails("plot", "none")
    (here / "empty").mkdir()
    assert "it has no run.jsonl" in fails("plot", "empty")
