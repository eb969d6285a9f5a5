"""The study of the speed of the device in machine code: its tables, on few rows."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane_studies import cpu_speed
from bitlane_studies.cpu_speed import Samples, blas_epoch, large_table, main, mnist_table


@pytest.fixture
def samples(seed: int, monkeypatch: pytest.MonkeyPatch) -> Samples:
    monkeypatch.setattr(cpu_speed, "REPEATS", 1)
    rng = np.random.default_rng(seed)
    return Samples(rng.uniform(-1, 1, (200, 40)).astype(np.float32), rng.uniform(-1, 1, 200).astype(np.float32))


def test_the_table_of_all_precisions(samples: Samples) -> None:
    first, head, _, *rows = mnist_table(samples).splitlines()
    assert first.startswith("float32 BLAS: ") and head.split()[0] == "s"
    assert [int(row.split()[0]) for row in rows] == list(range(2, 34, 2))
    assert all(float(cell) >= 0 for row in rows for cell in row.split())


def test_the_table_of_large_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_speed, "LARGE_BLOCK", 128)
    monkeypatch.setattr(cpu_speed, "LARGE_COPIES", 3)
    cells = large_table().splitlines()[-1].split()
    assert cells[:2] == ["384", "1,024"] and all(float(cell) >= 0 for cell in cells[2:])


def test_the_loop_of_blas_is_mini_batch_sgd(samples: Samples) -> None:
    weights = np.zeros(40)
    for start in range(0, 200, cpu_speed.BATCH):
        rows, y = samples.X[start : start + cpu_speed.BATCH], samples.y[start : start + cpu_speed.BATCH]
        step = cpu_speed.RATE / cpu_speed.BATCH
        weights -= step * sum(row * (row @ weights - label) for row, label in zip(rows, y, strict=True))
    assert np.allclose(blas_epoch(samples.X, samples.y), weights, atol=1e-6)


def test_several_threads_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in cpu_speed.THREADS:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit, match="set OPENBLAS_NUM_THREADS=1"):
        main()
