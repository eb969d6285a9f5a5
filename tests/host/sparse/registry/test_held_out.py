"""Held-out rows are scored once by several models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_validation import Validated

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.registry.held_out import score_held_out


def test_scores_are_those_of_each_model(tmp_path: Path, seed: int) -> None:
    subject = Validated(tmp_path / "model", seed)
    first = subject.registry.load(subject.publish())
    before = subject.model.scores(subject.held_out)
    subject.model.learn(subject.train)
    second = subject.registry.load(subject.publish())
    read = 0

    def batches() -> Iterator[Batch]:
        nonlocal read
        read += 1
        yield from subject.batches()

    found = score_held_out([first, second], batches())
    assert read == 1 and np.array_equal(found.labels, subject.held_out.labels)
    np.testing.assert_allclose(found.scores[0], before, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.scores[1], subject.model.scores(subject.held_out), rtol=1e-5, atol=1e-6)
    quality = found.quality(0)
    assert quality is not None and quality.auc is not None and quality.rows == subject.held_out.rows
    subject.spoil(np.nan)
    third = subject.registry.load(subject.publish())
    assert score_held_out([third], batches()).quality(0) is None


def test_no_rows_are_a_mistake(tmp_path: Path) -> None:
    subject = Validated(tmp_path / "model", 1)
    model = subject.registry.load(subject.publish())
    with pytest.raises(DataError, match="the held-out data has no rows"):
        score_held_out([model], [])
