"""Scores of several workers as windows: epochs apart, repetitions once."""

from __future__ import annotations

import numpy as np

from bitlane.sparse.engines.actors import Learned
from bitlane.sparse.engines.merging import ScoreMerger


def learned(epoch: int, behind: int, rows: int) -> Learned:
    """A minibatch whose scores are the numbers of its rows."""
    scores = np.arange(behind - rows, behind, dtype=np.float32)
    return Learned(epoch, behind, scores, np.zeros(rows, np.float32))


def ended(merger: ScoreMerger, before: int | None = None) -> list[tuple[int, list[float]]]:
    until = merger.epoch if before is None else before
    return [(epoch, scores.arrays()[0].tolist()) for epoch, scores in merger.windows(until)]


def test_windows_of_epochs_come_apart_and_in_order() -> None:
    merger = ScoreMerger("log_loss", 4, [(0, 0), (0, 0)])
    merger.add(0, [learned(0, 2, 2), learned(1, 3, 1)])
    assert ended(merger) == [] and (merger.epoch, merger.newest, merger.rows) == (0, 1, 3)
    merger.add(1, [learned(0, 2, 2)])
    assert ended(merger) == [(0, [0, 1, 0, 1])]
    merger.add(1, [learned(0, 3, 1), learned(1, 4, 1)])
    assert ended(merger) == [(0, [2])]  # nobody is in this epoch any more
    assert merger.begun()[0].tolist() == [2, 3]
    assert ended(merger, before=2) == [(1, [2, 3])]


def test_rows_that_are_learned_again_count_once() -> None:
    """A worker died after it had learned rows 2 to 5, of whose steps the servers had those of rows 2 and 3."""
    merger = ScoreMerger("log_loss", 100, [(0, 2)])
    merger.add(0, [learned(0, 4, 2), learned(0, 6, 2)])
    merger.add(0, [learned(0, 6, 2), learned(0, 9, 3)])
    merger.add(0, [learned(0, 10, 3)])  # two of its rows are known
    assert merger.rows == merger.rows_of(0) == 10
    assert ended(merger, before=1) == [(0, [2, 3, 4, 5, 6, 7, 8, 9])]


def test_a_worker_that_has_ended_holds_up_no_epoch() -> None:
    merger = ScoreMerger("log_loss", 100, [(0, 0), (0, 0)])
    merger.add(0, [learned(0, 1, 1), learned(1, 2, 1)])
    assert merger.epoch == 0
    merger.end(1)  # it has no rows
    assert merger.epoch == 1
    merger.end(0)
    assert merger.epoch == 1


def test_a_window_that_had_begun_goes_on() -> None:
    merger = ScoreMerger("log_loss", 3, [(2, 5)])
    merger.restore(np.array([7, 8], np.float32), np.zeros(2, np.float32))
    merger.add(0, [learned(2, 6, 1)])
    assert ended(merger) == [(2, [7, 8, 5])]
