"""The study of distances from the optimum: its tables, its scores, and its verdict."""

from __future__ import annotations

import numpy as np

from bitlane_studies import optimum
from bitlane_studies.optimum import StudyScores, StudyTable


def test_nine_synthetic_tables_of_finite_values() -> None:
    tables = list(optimum.synthetic_tables())
    assert len({table.name for table in tables}) == 9
    assert all(np.isfinite(table.X).all() and len(table.X) == len(table.y) for table in tables)
    rare = next(table for table in tables if table.name == "0.1 % positives")
    assert np.mean(rare.y) == 0.001


def test_a_table_is_measured_by_all_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 3))
    found = optimum.measure(StudyTable("toy", X, (X[:, 0] > 0).astype(int), True), 0)
    assert list(found) == ["optimum", "SGD + scaler", "2 bits", "4 bits", "8 bits", "32 bits"]
    assert all(each.log_loss is not None and each.recall is None for each in found.values())
    assert found["2 bits"].score > 0.8 or found["2 bits"].warned
    assert all(each.score > 0.8 for name, each in found.items() if name != "2 bits")
    line = optimum.measure(StudyTable("line", X, X[:, 0] + 1, False), 0)
    assert line["8 bits"].score > 0.99 and line["8 bits"].log_loss is None


def test_the_verdict_counts_tables_and_warnings() -> None:
    names = ("optimum", "8 bits", "4 bits")
    near = {name: StudyScores(score) for name, score in zip(names, (0.9, 0.896, 0.887), strict=True)}
    far = {name: StudyScores(score) for name, score in zip(names, (0.9, 0.894, 0.889), strict=True)}
    near["2 bits"], far["2 bits"] = StudyScores(0.84), StudyScores(0.8, warned=True)
    text = optimum.verdict([near, far])
    assert "8 bits: 1 of 2" in text and "4 bits: 1 of 2" in text
    assert "2 bits: 2 of 2 tables more than 0.05 below the optimum's score, of which 1 warned" in text


def test_cells_name_scores_and_warnings() -> None:
    assert StudyScores(0.9128, 0.2, 0.5, True).text() == "0.913 / 0.200 / 0.500*"
    assert StudyScores(-2e6).text() == "-2e+06"
