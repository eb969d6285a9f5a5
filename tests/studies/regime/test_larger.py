"""The study of a table larger than memory, on a table of a few megabytes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from bitlane_studies.regime import larger

pytest.importorskip("sklearn")


def test_all_programs_run_and_the_folder_keeps_results_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(larger, "find_spec", lambda name: None)
    monkeypatch.setattr(larger, "PIECE", 1 << 16)
    cores = os.sched_getaffinity(0)
    try:
        larger.main(["--gigabytes", "0.002", "--columns", "64", "--out", str(tmp_path), "--cores", str(min(cores))])
    finally:
        os.sched_setaffinity(0, cores)
    found = json.loads((tmp_path / "larger.json").read_text())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["larger.json", "larger.md"]
    assert found["encoded"] < 0.4 * found["file"]
    assert found["ours"]["loss"] < 0.62 and found["ours"]["loss"] < found["partial_fit"]["loss"] + 1e-3
    assert "LinearClassifier" in capsys.readouterr().out


def test_labels_are_learnable_and_half_of_each(tmp_path: Path) -> None:
    larger.generate(tmp_path / "t.npy", 4_000, 12)
    rows = np.load(tmp_path / "t.npy")
    assert rows.shape == (4_000, 13) and abs(rows[:, -1].mean()) < 0.1
    coef = np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=None)[0]
    assert np.mean(np.sign(rows[:, :-1] @ coef) == rows[:, -1]) > 0.7
