"""Tuning and measurement with contenders that only pretend to train."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.sparse_rows import random_rows

from bitlane_studies.sparse.duels import Duel, Study, faster, table
from bitlane_studies.sparse.processes import Timing
from bitlane_studies.sparse.rivals import Contender, Workspace
from bitlane_studies.sparse.rows import divide


class Pretender(Contender):
    """Predicts the labels with noise: the less, the nearer its setting is to `best`."""

    reads, fixed = "nothing", ""
    grid = tuple({"rate": rate} for rate in (1.0, 2.0, 3.0, 4.0))

    def __init__(self, program, seconds, best, calls):
        self.program = self.tuned_as = program
        self._seconds, self._best, self._calls = iter(seconds), best, calls
        self._setting = {}

    def train(self, setting, passes, learn, place):
        self._setting = setting
        self._calls.append((self.program, learn.name, setting["rate"]))
        if learn.name == "fit":
            return Timing(0.0, 0.0)
        return Timing(next(self._seconds), 0.5, loop_seconds=0.25)

    def predict(self, learn, held, place):
        noise = np.random.default_rng(0).normal(size=held.rows.rows)
        return 1 / (1 + np.exp(-held.rows.labels - abs(self._setting["rate"] - self._best) * noise))


@pytest.fixture
def parts(seed, tmp_path):
    pytest.importorskip("sklearn")
    return divide(random_rows(np.random.default_rng(seed), 2000), tmp_path)


def test_programs_are_tuned_on_rows_held_out_and_measured_by_turns(parts, tmp_path):
    calls = []
    duel = Duel("LR", 2, Pretender("ours", [2.0, 1.0, 4.0], 3.0, calls), Pretender("theirs", [4, 3, 4], 2.0, calls))
    study = Study(parts, Workspace(tmp_path, (0,)), 3, lambda line: None)
    ours, theirs = study.measure(duel)
    assert calls[:8] == [(name, "fit", rate) for name in ("ours", "theirs") for rate in (1.0, 2.0, 3.0, 4.0)]
    assert calls[8:] == 3 * [("ours", "train", 3.0), ("theirs", "train", 2.0)]
    assert (ours.setting, theirs.setting) == ({"rate": 3.0}, {"rate": 2.0})
    assert (ours.seconds, theirs.seconds) == (2.0, 4.0)
    assert faster((ours, theirs)) == 2.0  # the median of 2, 3 and 1
    assert ours.auc == theirs.auc == 1.0
    study.tune(duel.ours, 2)
    assert len(calls) == 14  # once for each program and number of passes
    study.tune(duel.ours, 3)
    assert len(calls) == 18


def test_the_table_has_a_line_for_each_program(parts, tmp_path):
    duel = Duel("FM 8", 2, Pretender("ours", [2.0], 3.0, []), Pretender("theirs", [4.0], 2.0, []))
    study = Study(parts, Workspace(tmp_path, (0,)), 1, lambda line: None)
    lines = table([duel], [study.measure(duel)], 1_000_000).splitlines()
    assert len(lines) == 4
    ours, theirs = (line.split() for line in lines[2:])
    probabilities = 1 / (1 + np.exp(-parts.test.rows.labels))
    loss = -np.mean(np.log(np.where(parts.test.rows.labels == 1, probabilities, 1 - probabilities)))
    shared = ["0.50", "8.00", "1.0000", f"{loss:.4f}"]
    assert ours == ["FM", "8", "ours", "nothing", "2", "rate=3", "2.00", "0.50", "1.00", *shared[1:], "2.00"]
    assert theirs == ["FM", "8", "theirs", "nothing", "2", "rate=2", "4.00", "0.50", "0.50", *shared[1:]]
