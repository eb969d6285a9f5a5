"""The comparison of a dense step for each worker with one of the mean."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.sparse_workers import train_alone

from bitlane.sparse.generator.click_log import ClickLog
from bitlane.sparse.generator.settings import ClickLogSettings
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.optimizers import AdaGrad
from bitlane.sparse.training.windows import auc

pytestmark = pytest.mark.torch


@pytest.fixture
def rows(seed):
    return ClickLog(ClickLogSettings(fields=3, keys=200, seed=seed)).batch(0, 800)


def _spec(seed, **settings) -> ModelSpec:
    return ModelSpec("dnn", fields=3, dim=2, hidden=(4,), batch_rows=50, seed=seed, **settings)


def test_a_step_for_each_worker_is_the_bulk_synchronous_reference(rows, seed):
    from bitlane_studies.sparse.dense_quality import train

    shares = [rows.take(np.arange(rows.rows).reshape(-1, 4, 50)[:, worker].ravel()) for worker in range(4)]
    _, scored = train_alone(_spec(seed), shares, 1)
    scores = np.concatenate([np.concatenate(each) for each in zip(*(one.scores for one in scored), strict=True)])
    assert train(_spec(seed), rows, 4, mean=False) == auc(scores[400:], rows.labels[400:])


def test_one_worker_has_one_result(rows, seed):
    from bitlane_studies.sparse.dense_quality import train

    assert train(_spec(seed), rows, 1, mean=True) == train(_spec(seed), rows, 1, mean=False)


def test_with_sgd_the_mean_needs_as_many_times_the_rate_as_there_are_workers(rows, seed):
    """4 steps with g_i are one with the mean and 4 times the rate, because all are taken at the same weights."""
    from bitlane.sparse.parameters.optimizers import SGD
    from bitlane_studies.sparse.dense_quality import train

    each = train(_spec(seed, dense=SGD(0.05)), rows, 4, mean=False)
    assert train(_spec(seed, dense=SGD(0.2)), rows, 4, mean=True) == pytest.approx(each, abs=1e-3)
    assert train(_spec(seed, dense=AdaGrad(0.05)), rows, 4, mean=True) != pytest.approx(each, abs=1e-4)


def test_the_command_prints_its_table(capsys):
    from bitlane_studies.sparse import dense_quality

    dense_quality.main(["--rows", "2048", "--workers", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("  ")[0] == "learning rate"
    assert [float(line.split()[0]) for line in lines[2:]] == list(dense_quality.RATES)
    assert all(0 < float(cell) < 1 for line in lines[2:] for cell in line.split()[1:])


def test_bad_sizes_are_refused(capsys):
    from bitlane_studies.sparse import dense_quality

    with pytest.raises(SystemExit):
        dense_quality.main(["--rows", "10"])
    assert "--rows must be at least 1,000" in capsys.readouterr().err


def test_rows_of_one_label_are_an_error(rows, seed):
    from dataclasses import replace

    from bitlane.errors import BitlaneError
    from bitlane_studies.sparse.dense_quality import train

    with pytest.raises(BitlaneError, match="all 400 rows of the second half have one label: take more rows"):
        train(_spec(seed), replace(rows, labels=np.zeros(rows.rows, np.float32)), 4, mean=True)
