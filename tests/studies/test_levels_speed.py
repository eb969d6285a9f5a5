"""The study of the speed of optimal levels: one row of its table."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane_studies import levels_speed as levels


def test_a_row_of_measurements(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "REPEATS", 1)
    values = np.random.default_rng(seed).normal(size=20_000).astype(np.float32)
    name, intervals, seconds, size, milliseconds, above, certified = levels.row("normal", values, 8)
    assert (name, intervals) == ("normal", "8") and len(levels.HEAD) == 7
    assert float(seconds) > 0 and float(size) > 0 and float(milliseconds) > 0
    assert 0 <= float(above.rstrip("%")) <= float(certified.rstrip("%")) < 0.1
