"""Fixtures: an empty folder, small data sets, and commands that must fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.pictures import blank_pictures, drawn

from bitlane.cli.main import main

__all__ = ["blank_pictures", "drawn"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run every test in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BITLANE_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def houses(here: Path) -> Path:
    """Write a CSV file of 60 rows with a linear price and a district in words."""
    rng = np.random.default_rng(5)
    rooms, age = rng.integers(1, 9, 60), rng.integers(0, 90, 60)
    price = 1000.0 * rooms - 12.5 * age + rng.normal(0, 50, 60)
    lines = [f"{r},{a},{p:.2f},{'north' if p > 4000 else 'south'}" for r, a, p in zip(rooms, age, price, strict=True)]
    path = here / "houses.csv"
    path.write_text("rooms,age,price,district\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def prices(houses: Path) -> Path:
    """Write the same CSV file without the district."""
    path = houses.with_name("prices.csv")
    path.write_text("\n".join(line.rpartition(",")[0] for line in houses.read_text().splitlines()) + "\n")
    return path


@pytest.fixture
def fails(here: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command line that must fail with status 2, one line of error, an empty stdout and no new files."""

    def failing(*arguments: str) -> str:
        before = sorted(here.rglob("*"))
        assert main(list(arguments)) == 2
        out, err = capsys.readouterr()
        errors = [line for line in err.splitlines() if not line.startswith("bitlane: note: ")]
        assert out == ""
        assert len(errors) == 1
        assert errors[0].startswith("bitlane: error: ")
        assert sorted(here.rglob("*")) == before
        return errors[0]

    return failing
