"""The study of the speed of encoding: the rows of its table."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.studies import encode_speed


def test_rows_of_measurements(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode_speed, "REPEATS", 1)
    X = np.random.default_rng(seed).integers(0, 256, (300, 40)).astype(np.uint8)
    found = list(encode_speed.rows("pixels", X))
    works = ["copy", "fingerprint", *(f"{kind}, s={bits}" for bits in (2, 4, 8, 32) for kind in ("base", "draws"))]
    assert [(work, threads) for _, work, threads, *_ in found] == [(work, each) for each in "12" for work in works]
    assert all(len(row) == len(encode_speed.HEAD) and float(row[3]) > 0 and float(row[4]) > 0 for row in found)
