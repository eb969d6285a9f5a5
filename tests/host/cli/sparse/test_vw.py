"""Vowpal Wabbit's text in the commands: the model of the same rows as CSV, published and validated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bitlane.cli.main import main
from bitlane.sparse.training.log import read_log

Trains = Callable[..., str]
Fails = Callable[..., str]


@pytest.fixture
def lines(clicks: Path) -> Path:
    """The rows of `clicks` as Vowpal Wabbit's text."""
    rows = [line.split(",") for line in clicks.read_text().splitlines()[1:]]
    path = clicks.with_name("clicks.vw")
    path.write_text("".join(f"{2 * int(y) - 1} 'r |user {u} |item {i} | price:{p}\n" for y, u, i, p in rows))
    return path


@pytest.mark.parametrize("model", ["lr", "ffm"])
def test_the_model_of_the_same_rows_as_csv(model: str, clicks: Path, lines: Path, trains: Trains) -> None:
    common = ["--model", model, "--test-fraction", "0.2"]
    trains(clicks, *common, "--target", "click", "--unscaled", "--out", "one")
    trains(lines, *common, "--out", "two")
    if model == "lr":  # fields of others are numbered otherwise
        assert read_log("one")[-1]["auc"] == read_log("two")[-1]["auc"]
        assert Path("one/model/parameters.arrow").read_bytes() == Path("two/model/parameters.arrow").read_bytes()
    held_out = ["--held-out", "clicks.vw", "--test-fraction", "0.2", "--max-miscalibration", "9"]
    assert main(["sparse", "publish", "two", "models/m"]) == 0
    assert main(["sparse", "promote", "models/m", "latest", *held_out]) == 0
    assert main(["sparse", "train", "--resume", "two", "--epochs", "2"]) == 0


def test_any_suffix_and_rows_without_labels(lines: Path, trains: Trains, fails: Fails) -> None:
    lines.rename("clicks.txt")
    trains("clicks.txt", "--format", "vw", "--model", "lr", "--out", "run")
    Path("new.vw").write_text("|user u1 |item i2 |shop s1\n")
    assert main(["sparse", "predict", "run", "new.vw", "--out", "scores.csv"]) == 0
    assert len(Path("scores.csv").read_text().splitlines()) == 2


def test_mistakes_are_one_line(lines: Path, fails: Fails) -> None:
    lines.write_text(lines.read_text() + "1 -0.5 |user u1\n")
    error = fails("sparse", "train", "clicks.vw", "--model", "lr")
    assert "clicks.vw, line 601: the importance weight is -0.5: a weight is finite and at least 0" in error
    assert "--numeric: " in fails("sparse", "train", "clicks.vw", "--numeric", "price")
