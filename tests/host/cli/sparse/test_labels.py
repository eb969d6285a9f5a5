"""Labels of two values that are no 0 and 1: training, evaluation and validation read them alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bitlane.cli.main import main

Fails = Callable[..., str]


@pytest.fixture
def stars(clicks: Path) -> tuple[Path, Path]:
    """The clicks with 5 stars for 1 and 1 to 4 for 0, and the same rows with 1 and 0."""
    header, *rows = clicks.read_text().splitlines()
    marks = [("5" if row[0] == "1" else str(1 + number % 4)) + row[1:] for number, row in enumerate(rows)]
    stars = clicks.with_name("stars.csv")
    stars.write_text("\n".join([header, *marks]) + "\n")
    return stars, clicks


def test_the_model_of_stars_is_that_of_clicks(
    stars: tuple[Path, Path], trains: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--target", "click", "--test-fraction", "0.2", "--model", "lr"]
    printed = []
    for path, more in zip(stars, (["--positive", "5"], []), strict=True):
        out = trains(path, *common, *more, "--out", f"runs/{path.stem}")
        found = [line for line in out.splitlines() if line.startswith(("epoch", "held-out"))]
        assert main(["sparse", "evaluate", f"runs/{path.stem}", str(path), "--test-fraction", "0.2"]) == 0
        printed.append([*found, capsys.readouterr().out.splitlines()[2].split()[1:]])
        assert main(["sparse", "publish", f"runs/{path.stem}", f"models/{path.stem}"]) == 0
        checks = ["--held-out", str(path), "--test-fraction", "0.2", "--max-miscalibration", "1"]
        assert main(["sparse", "promote", f"models/{path.stem}", "latest", *checks]) == 0
        capsys.readouterr()
    assert printed[0] == printed[1]


def test_errors_of_labels_name_the_option(stars: tuple[Path, Path], fails: Fails) -> None:
    train = ["sparse", "train", str(stars[0]), "--target", "click", "--out", "run"]
    error = fails(*train)
    assert "stars.csv, row 1: label" in error and "by --positive" in error
    error = fails(*train, "--positive", "5", "--loss", "squared_error")
    assert "--positive 5: squared_error has no classes; omit it" in error
    assert "--positive: " in fails("sparse", "train", "--resume", "run", "--positive", "5")


def test_an_absent_label_is_told(
    stars: tuple[Path, Path], trains: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["sparse", "train", str(stars[0]), "--target", "click", "--model", "lr", "--positive", "6"]
    assert main(arguments) == 0
    assert "none of the first 600 labels is '6', the one of --positive" in capsys.readouterr().err
