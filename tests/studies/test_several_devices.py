"""The study of several devices: its curves, and both of its tables on a small data set."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane_studies import several_devices
from bitlane_studies.papers.zipml.tasks import synthetic_data
from bitlane_studies.several_devices import RateCurve, classes_table, data_sets, main, table

pytest.importorskip("numba")


def test_a_curve_says_when_it_reaches_a_goal() -> None:
    curve = RateCurve(0.1, np.array([3.0, 2.0, 1.0, 2.0]), np.array([10, 20, 30, 40]))
    assert [curve.epochs_to(goal) for goal in (3.0, 2.5, 1.0, 0.5)] == [1, 2, 3, None]
    assert [curve.cycles_to(goal) for goal in (2.0, 0.5)] == [20.0, float("inf")]


def test_both_tables(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(several_devices, "SEEDS", 1)
    monkeypatch.setattr(several_devices, "FACTORS", (0.5, 1.0, 2.0))
    data = synthetic_data(800, 20, 1.0)
    head, _, rule, *rows = table(data, 8).splitlines()
    assert head.startswith("batch 8, automatic learning rate") and set(rule) == {"-"}
    assert [row.split()[0] for row in rows] == ["1", "2", "4"]
    best, scaled = float(rows[0].split()[4]), float(rows[0].split()[6])
    assert best == scaled == 1.0
    labels = np.arange(800) % 10
    cells = [row.split() for row in classes_table(data.X, labels).splitlines()[2:]]
    assert [cell[2:] for cell in cells] == [[ratio, "the", "same"] for ratio in ("1.00", "2.00", "3.33")]


def test_mnist_may_be_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def missing(name: str) -> None:
        raise DataError(f"no {name}")

    monkeypatch.setattr(several_devices, "load_dataset", missing)
    monkeypatch.setattr(several_devices, "table", lambda data, batch: f"{len(data.X)} rows, {batch}")
    monkeypatch.setattr(several_devices, "classes_table", lambda X, labels: str(np.bincount(labels).tolist()))
    [(_, _, labels)] = data_sets()
    assert np.bincount(labels).tolist() == [1000] * 10
    main()
    out, err = capsys.readouterr()
    assert "10000 rows, 16" in out and "10000 rows, 64" in out and "MNIST skipped: no mnist" in err
