"""`bitlane compare`: its table, its run folder, and held-out rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bitlane.cli.main import main
from bitlane.reporting import records

pytest.importorskip("pandas")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

QUICK = ["--device", "emulator", "--epochs", "2"]


def test_compare_prints_and_writes(drawn: None, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--bits",
        "4,32",
        "--sampling",
        "double,nearest",
        *QUICK,
        "--learning-rate",
        "0.1",
        "--out",
        "c",
    ]
    assert main(["compare", "breast_cancer", *arguments]) == 0
    out = capsys.readouterr().out
    assert "breast_cancer: class 1 against the rest" in out
    rows = [line.split("  ")[0] for line in out.splitlines() if line.startswith(("float", "full", "double", "nearest"))]
    stored = ["full, 32 bits", "double, 4 bits", "nearest, 4 bits"]
    assert rows == ["float64", *stored, *stored]  # quality, then cost, which float64 has none of
    assert sorted(os.listdir("c")) == ["loss-bytes.png", "loss.png", "run.jsonl"]
    assert [line["bits"] for line in records.read_record("c").lines] == [64, 32, 4, 4]


def test_compare_one_digit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "wine", "--positive", "2", "--bits", "8", "--sampling", "double", *QUICK]) == 0
    assert "wine: class 2 against the rest" in capsys.readouterr().out


@pytest.mark.parametrize("loss", ["squared_error", "hinge", "log_loss"])
def test_compare_losses_and_staleness(loss: str, capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--bits", "8", "--sampling", "double", "--staleness", "1,0,1", "--width", "128"]
    assert main(["compare", "breast_cancer", "--loss", loss, *shape, *QUICK, "--out", "c"]) == 0
    out = capsys.readouterr().out
    assert "128 bits wide" in out
    assert "accuracy" in out
    rows = [line.split("  ")[0] for line in out.splitlines() if line.startswith(("float", "full", "double"))]
    stored = ["full, 32 bits", "double, 8 bits", "full, 32 bits, stale", "double, 8 bits, stale"]
    assert rows == ["float64", *stored, *stored]
    record = records.read_record("c")
    assert [line["staleness"] for line in record.lines] == [0, 0, 0, 1, 1]
    assert all(line["accuracy"] > 0.8 for line in record.lines)
    assert sorted(os.listdir("c")) == ["loss-bytes.png", "loss.png", "run.jsonl"]


def test_compare_reports_held_out_rows(here: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(600, 3))
    y = np.where(X[:, 0] > 0, 1, 0)
    np.savez(here / "t.npz", X_train=X[:400], y_train=y[:400], X_test=X[400:], y_test=1 - y[400:])
    options = ["--bits", "8", "--sampling", "double", "--loss", "log_loss", *QUICK, "--epochs", "10"]
    assert main(["compare", "t.npz", *options, "--out", "c"]) == 0
    assert "held out" in capsys.readouterr().out
    assert all(line["accuracy"] > 0.8 > 0.2 > line["held_out"] for line in records.read_record("c").lines)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--bits", "4,5"], "--bits 5"),
        (["--bits", "4,,8"], "'4,,8'"),
        (["--sampling", "double,often"], "--sampling often"),
        (["--positive", "1"], "has no classes"),
        (["--loss", "hinge"], "has no classes"),
        (["--staleness", "0,2"], "--staleness 0,2: choose 0, 1 or 0,1"),
        (["--staleness", "x"], "--staleness"),
        (["--width", "1024"], "invalid choice: 1024"),
        (["--learning-rate", "0"], "--learning-rate"),
        (["--epochs", "-1"], "must be at least 1"),
        (["--decay", "nan"], "--decay nan"),
    ],
)
def test_bad_options_of_compare(prices: Path, fails: Callable[..., str], arguments: list[str], part: str) -> None:
    assert part in fails("compare", str(prices), "--target", "price", *QUICK, *arguments, "--out", "run")
