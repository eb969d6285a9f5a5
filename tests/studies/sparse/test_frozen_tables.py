"""The study of frozen tables, on few rows."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("numba")

from bitlane_studies.sparse import frozen_tables as study


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(study, "LOOKUPS", 500)


def test_it_prints_sizes_and_times(capsys):
    study.main(["--rows", "30000", "--width", "2", "--rounds", "3"])
    lines = capsys.readouterr().out.splitlines()
    assert "keys, 2 values each; 500 lookups" in lines[0]
    found = {line[:20].strip(): re.findall(r"[\d.]+", line[20:]) for line in lines[4:]}
    assert set(found) >= {"float32", "8 bits", "4 bits", "2 bits", "float32, mapped", "table of a training"}
    # 64 - 12 bits of key, index of 2^12 buckets, 8 bytes of values, half a byte a value of 4 bits
    assert float(found["float32"][0]) == pytest.approx(52 / 8 + 4 * 4096 / 30_000 + 8, rel=0.01)
    assert float(found["4 bits"][0]) == pytest.approx(52 / 8 + 4 * 4096 / 30_000 + 1, rel=0.02)
    assert float(found["float32"][1]) == pytest.approx(float(found["float32"][0]) / 16, rel=0.01)


def test_all_ways_read_the_same_rows(tmp_path, seed):
    keys, rows = study.random_rows(20_000, 1, seed)
    assert len(np.unique(keys)) == len(keys) > 19_990
    ways = study.ways_of(study.frozen_tables(keys, rows), keys, rows, tmp_path)
    asked = keys[np.random.default_rng(seed).integers(0, len(keys), 500)]
    exact = [ways[name](asked) for name in ("float32", "float32, mapped", "table of a training")]
    expected = rows[[keys.tolist().index(key) for key in asked.tolist()]]
    for found in exact:
        np.testing.assert_array_equal(found, expected)
    assert abs(ways["8 bits"](asked) - expected).max() < 0.5
