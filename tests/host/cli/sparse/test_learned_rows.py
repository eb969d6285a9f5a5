"""Rows that a model has learned, copied to another file: each command refuses them; times of rows are shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bitlane.cli.main import main
from bitlane.sparse.registry.registry import ModelRegistry

pytest.importorskip("pandas")
import pandas as pd

REGISTRY = "models/ctr"
LEARNED = 1500
COPY, NEW = "copy.parquet", "new.csv"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `bitlane sparse`; return its status, what it printed, and its errors."""

    def command(*arguments: object) -> tuple[int, str, str]:
        status = main(["sparse", *map(str, arguments)])
        out, err = capsys.readouterr()
        return status, out, err

    return command


@pytest.fixture
def rows(here: Path, seed: int) -> pd.DataFrame:
    """Rows of two days, a second apart; the first ones in train.csv, a half of these in a copy, the others in new."""
    rng, count = np.random.default_rng(seed), LEARNED + 500
    table = pd.DataFrame(
        {
            "click": rng.integers(0, 2, count),
            "user": rng.integers(0, 10**6, count),
            "price": np.round(rng.lognormal(3, 1, count), 2),
            "time": pd.to_datetime("2026-03-01") + pd.to_timedelta(np.arange(count) * 60, unit="s"),
        }
    )
    learned, new = table.iloc[:LEARNED], table.iloc[LEARNED:]
    learned.to_csv(here / "train.csv", index=False)
    pd.concat([learned.sample(frac=0.5, random_state=seed % 2**31), new]).to_parquet(here / COPY)
    new.to_csv(here / NEW, index=False)
    return table


@pytest.mark.parametrize("epochs", [1, 3])
def test_every_command_refuses_copies(rows: pd.DataFrame, run: Run, epochs: int) -> None:
    train = ("train", "train.csv", "--target", "click", "--epochs", epochs, "--checkpoint-rows", 700)
    assert run(*train, "--out", "run", "--publish", REGISTRY)[0] == 0
    refused = (
        "has learned held-out rows: about 60.0% of the held-out rows are rows that it has learned (750 of 1,250 in"
    )
    loose = [item for name in ("auc-loss", "log-loss", "miscalibration") for item in (f"--max-{name}", 9)]
    for command in (
        ("evaluate", "run", COPY),
        ("validate", REGISTRY, 1, "--held-out", COPY),
        ("promote", REGISTRY, 1, "--held-out", COPY),
        ("publish", "run", REGISTRY, "--base", "--bits", "auto", "--held-out", COPY),
    ):
        status, _, err = run(*command)
        assert (status, refused in err) == (2, True), (command, err)
    assert ModelRegistry(REGISTRY).numbers() == [1]
    told = "a sample of its rows agrees"
    status, out, err = run("evaluate", "run", NEW)
    assert status == 0 and told in out and "not later" not in err
    assert run("promote", REGISTRY, 1, "--held-out", NEW, *loose)[0] == 0
    record = json.loads(Path(f"{REGISTRY}/validations/0000001/record.json").read_text())
    assert told in record["checks"][1]["detail"]
    status, out, _ = run("evaluate", "run", COPY, "--allow-learned")
    assert status == 0 and "allowed by --allow-learned: about 60.0% of the held-out rows" in out


def test_a_resumed_training_knows_all_rows(rows: pd.DataFrame, run: Run) -> None:
    run("train", "train.csv", "--target", "click", "--out", "one")
    run("train", "train.csv", "--target", "click", "--out", "more")
    assert run("train", "--resume", "more", "--epochs", 2)[0] == 0
    one, more = (
        json.loads(Path(name, "model/training.json").read_text())["data"]["learned"] for name in ("one", "more")
    )
    assert one == more and one["rows"] == LEARNED


def test_times_of_rows_are_shown_and_earlier_ones_are_told(rows: pd.DataFrame, run: Run, here: Path) -> None:
    run("train", "train.csv", "--target", "click", "--out", "run", "--publish", REGISTRY)
    assert "their times (UTC)     2026-03-01 00:00:00 to 2026-03-02 00:59:00" in run("inspect", "run")[1]
    assert "2026-03-02 00:59:00" in run("versions", REGISTRY)[1]
    found = json.loads(run("versions", REGISTRY, "--json")[1])["versions"][0]["data"]["learned"]
    assert found == {"rows": LEARNED, "times": [1772323200, 1772413140]}
    early = rows.iloc[LEARNED - 100 :].assign(user=lambda table: table["user"] + 10**7)
    early.to_csv(here / "early.csv", index=False)
    status, out, err = run("evaluate", "run", "early.csv")
    wanted = (
        "run: 16.7% of the held-out rows are not later than the last row that it has learned, of 2026-03-02 00:59:00"
    )
    assert status == 0 and wanted in out and wanted in err
