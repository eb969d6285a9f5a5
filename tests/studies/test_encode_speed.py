"""The study of the speed of encoding: the rows of its table."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.quantization.c_kernels import c_kernels
from bitlane_studies import encode_speed


def test_rows_of_measurements(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode_speed, "REPEATS", 1)
    X = np.random.default_rng(seed).integers(0, 256, (300, 40)).astype(np.uint8)
    found = list(encode_speed.rows("pixels", X))
    kernels = [] if c_kernels() is None else ["C"]
    encoded = [f"{kind}, s={bits}" for bits in (2, 4, 8, 32) for kind in ("base", "draws")]
    expected = {("copy", "numpy", each) for each in "12"} | {("fingerprint", "hashlib", each) for each in "12"}
    together = [f"8 x draws, s={bits}" for bits in (2, 4, 8, 32)]
    expected |= {(work, name, each) for work in (*encoded, *together) for name in kernels for each in "12"}
    expected |= {(work, "numpy", "1") for work in encoded}
    assert {row[1:4] for row in found} == expected and len(found) == len(expected)
    assert all(len(row) == len(encode_speed.HEAD) and float(row[4]) > 0 and float(row[5]) > 0 for row in found)
