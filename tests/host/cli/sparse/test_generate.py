"""`bitlane sparse generate`: its options reach the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bitlane.cli.main import main
from bitlane.cli.sparse.generate import SETTINGS
from bitlane.sparse import ClickLog, ClickLogSettings

GIVEN = {
    **{"keys": 20_000, "fields": 3, "growth": 1.5, "zipf": 0.9, "dim": 2, "linear": 0.5, "interactions": 0.25},
    **{"base_rate": 0.4, "churn": 2.0, "turn": 0.1, "start_time": 99, "rows_per_second": 10.0, "seed": 8},
}


def test_every_setting_reaches_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(GIVEN) == set(SETTINGS) == set(vars(ClickLogSettings()))
    options = [word for name, value in GIVEN.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    options += ["--rows", "1e3", "--segment-rows", "4e2", "--format", "libffm", "--threads", "1"]
    assert main(["sparse", "generate", "log", *options]) == 0
    manifest = json.loads(Path("log/_manifest.json").read_text())
    assert manifest["settings"] == GIVEN
    assert [(each["name"], each["rows"]) for each in manifest["segments"]] == [
        (f"clicks-0000000{k}.ffm", rows) for k, rows in enumerate((400, 400, 200))
    ]
    batch = ClickLog(ClickLogSettings(**manifest["settings"])).batch(0, 1)  # type: ignore[arg-type]
    first = Path("log/clicks-00000000.ffm").read_text().split("\n", 1)[0]
    assert first.split()[1:] == [f"{field}:{key}:1" for field, key in enumerate(batch.keys)]
    assert f"log loss {manifest['truth']['log_loss']:.4f}" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["0", "1.5", "-3", "many", "inf", "nan"])
def test_numbers_of_rows(text: str, fails: Callable[..., str]) -> None:
    assert f"argument --rows: '{text}' is not an integer" in fails("sparse", "generate", "log", f"--rows={text}")
