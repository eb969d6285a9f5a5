"""Bounds and sums of columns: the bits of numpy from machine code, and values that are not finite."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.compilers import has_compiler

from bitlane.quantization import column_bounds as module
from bitlane.quantization.column_bounds import column_bounds


@pytest.mark.skipif(not has_compiler(), reason="this machine has no C compiler")
def test_machine_code_has_the_bits_of_numpy(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    monkeypatch.setattr(module, "SMALL", 0)
    for _ in range(30):
        rows, n = int(random.integers(1, 60)), int(random.choice([1, 2, 3, 33, 511, 512, 513, 600]))
        dtype = np.dtype(str(random.choice(["u1", "i2", "f4", "f8"])))
        piece = (random.normal(size=(rows, n)) * 40 + 100).astype(dtype)
        bad = 0
        if dtype.kind == "f" and random.random() < 0.3:
            bad = int(random.integers(1, 4))
            piece.reshape(-1)[random.choice(piece.size, min(bad, piece.size), replace=False)] = np.nan
            bad = int(np.isnan(piece).sum())
        found = column_bounds(piece)
        assert found.bad == bad
        if not bad:
            assert (found.low == piece.min(axis=0)).all()
            assert (found.high == piece.max(axis=0)).all()
            assert (found.total == piece.sum(axis=0, dtype=np.float64)).all()
