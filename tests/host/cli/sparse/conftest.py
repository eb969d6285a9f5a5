"""Fixtures: small files of sparse rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bitlane.cli.main import main

pytest.importorskip("numba")
pytest.importorskip("pyarrow")
pytest.importorskip("xxhash")
pytest.importorskip("matplotlib")

ROWS = 600


def planted(rows: int = ROWS, seed: int = 3) -> list[tuple[int, int, int]]:
    """Labels, users and items: a user clicks on items of its parity."""
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, 20, rows), rng.integers(0, 12, rows)
    clicks = rng.random(rows) < np.where(users % 2 == items % 2, 0.9, 0.1)
    return list(zip(clicks.astype(int).tolist(), users.tolist(), items.tolist(), strict=True))


@pytest.fixture
def clicks(here: Path) -> Path:
    """A CSV file with a click, a user, an item and a price."""
    lines = [f"{y},u{user},i{item},{0.5 + item / 8}" for y, user, item in planted()]
    path = here / "clicks.csv"
    path.write_text("click,user,item,price\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def pairs(here: Path) -> Path:
    """The same rows as libffm."""
    path = here / "clicks.ffm"
    path.write_text("".join(f"{y} 0:{user}:1 1:{100 + item}:1\n" for y, user, item in planted()))
    return path


@pytest.fixture
def trains(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run `bitlane sparse train`, which must succeed; return what it printed."""

    def training(*arguments: object) -> str:
        assert main(["sparse", "train", *map(str, arguments)]) == 0
        return capsys.readouterr().out

    return training
