"""Requests keep the model that they began with, and threads give the same bits."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tests.helpers.frozen_tables import frozen, request_of
from tests.helpers.sparse_models import planted_rows

pytest.importorskip("numba")

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.scoring.layers import LayeredTable
from bitlane.sparse.scoring.model import FrozenModel
from bitlane.sparse.scoring.scorer import SHARED_FEATURES, Scorer

KEYS = 500


def version(number: int) -> FrozenModel:
    """A regression in which each weight is the number of the version."""
    table = frozen({key: np.float32([number]) for key in range(KEYS)}, 1, chunk=100)
    return FrozenModel(ModelSpec("lr", loss="squared_error"), LayeredTable(table), {"intercept": np.zeros(1)}, number)


def request(rows: int, features: int) -> Batch:
    return request_of(np.arange(rows * features) % KEYS, [features] * rows)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_answer_is_of_one_version_while_models_swap(threads):
    scorer = Scorer(version(1), threads)
    batch = request(50, SHARED_FEATURES // 50 + 1)
    models = [version(number) for number in (1, 2, 3)]
    stop, problems, answered = threading.Event(), [], set()

    def ask() -> None:
        while not stop.is_set():
            scored = scorer.score(batch)
            answered.add(scored.version)
            if not (scored.predictions == scored.version * (SHARED_FEATURES // 50 + 1)).all():
                problems.append(scored)

    threads_of = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads_of:
        thread.start()
    for i in range(300):
        scorer.swap(models[i % 3])
        stop.wait(0.002)
    stop.set()
    for thread in threads_of:
        thread.join()
    scorer.close()
    assert not problems and answered == {1, 2, 3}


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 300])
def test_threads_give_the_same_bits(seed, rows):
    batch = planted_rows(seed, 300, fields=8, keys=400)
    times = -(-SHARED_FEATURES * 2 // batch.nnz)
    batch = Batch.concatenate([batch] * times)
    batch = batch.slice(0, rows if rows < 300 else batch.rows)
    model = version(2)
    one, four = Scorer(model), Scorer(model, 4)
    np.testing.assert_array_equal(one.score(batch).predictions, four.score(batch).predictions)
    assert len(four.score(batch).predictions) == batch.rows
    four.close()


def test_swap_returns_the_model_before():
    first, second = version(1), version(2)
    scorer = Scorer(first)
    assert scorer.swap(second) is first and scorer.model is second
    with pytest.raises(DataError, match="threads must be at least 1; got 0"):
        Scorer(first, 0)
