"""Files whose suffix says nothing: `--format` says it once, and evaluation, prediction and validation know it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bitlane.cli.main import main

Fails = Callable[..., str]


def test_a_folder_of_parts(clicks: Path, trains: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--target", "click", "--model", "lr", "--test-fraction", "0.2", "--unscaled"]
    header, *rows = clicks.read_text().splitlines(keepends=True)
    folder = clicks.with_name("day")
    folder.mkdir()
    for part in range(3):
        (folder / f"part-0000{part}").write_text("".join([header, *rows[part * 200 : (part + 1) * 200]]))
    (folder / "_SUCCESS").write_text("")
    printed = [
        trains("clicks.csv", *common),
        trains("day", *common, "--format", "csv", "--out", "run"),
    ]
    first, second = ([line for line in each.splitlines() if "learning" in line or "held" in line] for each in printed)
    assert first[:-1] == second[:-1]
    used = ["day", "--test-fraction", "0.2"]
    assert main(["sparse", "evaluate", "run", *used]) == 0
    assert main(["sparse", "predict", "run", "day", "--out", "scores.csv"]) == 0
    assert main(["sparse", "publish", "run", "models/ctr"]) == 0
    checks = ["--held-out", *used, "--max-miscalibration", "1"]
    assert main(["sparse", "promote", "models/ctr", "latest", *checks]) == 0
    assert main(["sparse", "publish", "run", "models/few", "--bits", "8", "--held-out", *used]) == 0
    capsys.readouterr()
    assert main(["sparse", "train", "--resume", "run", "--epochs", "2"]) == 0


def test_a_model_of_another_format_reads_files_with_the_option(
    clicks: Path, trains: Callable[..., str], fails: Fails
) -> None:
    trains(clicks, "--target", "click", "--model", "lr", "--out", "run")
    clicks.with_name("new.dat").write_bytes(clicks.read_bytes())
    error = fails("sparse", "evaluate", "run", "new.dat")
    assert "new.dat: unknown format: say what it is, --format csv; known suffixes are .libsvm" in error
    assert main(["sparse", "evaluate", "run", "new.dat", "--format", "csv", "--allow-learned"]) == 0


def test_formats_that_are_refused(clicks: Path, fails: Fails) -> None:
    train = ["sparse", "train", "--target", "click", "--out", "run"]
    error = fails(*train, "clicks.csv", "--format", "libsvm")
    assert "--format libsvm: the suffix of " in error and "clicks.csv says csv; omit it, or rename the file" in error
    assert "invalid choice: 'xls'" in fails(*train, "clicks.csv", "--format", "xls")
    Path("day").mkdir()
    Path("day/part-0").write_text("a")
    error = fails(*train, "day")
    assert "of 1 files, such as part-0, none has a known suffix: say what they are, --format csv" in error
    Path("rows.gz").write_bytes(b"x")
    assert "rows.gz: this format is read without gzip only: unpack it" in fails(
        *train, "rows.gz", "--format", "parquet"
    )
    assert "part-0: cannot be read" in fails(*train, "day", "--format", "parquet")
