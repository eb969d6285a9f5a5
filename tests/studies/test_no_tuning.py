"""The study of automatic learning rates: its table, on few rows."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane_studies import no_tuning

pytest.importorskip("numba")


def test_the_least_loss_of_the_grid(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The automatic rate is one of the grid, so its loss is at least the least; a tiny rate learns next to nothing."""
    monkeypatch.setattr(no_tuning, "SEEDS", (0,))
    monkeypatch.setattr(no_tuning, "TIMES", (1e-6, 1.0))
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 5))
    y = X @ rng.normal(1, 0.1, size=5) + rng.normal(size=300)
    rate, found = no_tuning.losses(X, y, 8, "double")
    assert 0 < rate <= 4 and found[1] < 2 < found[0]
    cells = no_tuning.row("some", X, y)
    assert cells[:2] == ("some", "300 x 5") and len(cells) == 2 + 3 * 3
    assert cells[3::3] == ("1.0000",) * 3 and cells[4::3] == ("x 1",) * 3


def test_data_sets_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.delenv("BITLANE_DATA", raising=False)
    monkeypatch.setattr(no_tuning, "NAMES", ("cadata",))
    no_tuning.main()
    assert capsys.readouterr().out.startswith("cadata skipped: ")
