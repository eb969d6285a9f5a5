"""The comparison of matrices on servers with all-reduce: weights against textbooks, bytes, deaths, tables."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_textbook import TextbookAdaGrad

from bitlane.sparse.models.spec import ModelSpec

pytestmark = pytest.mark.torch
pytest.importorskip("pyarrow.flight")

CLOCKS = 30
TIMEOUT = 120.0


def _plan(seed: int, *ways: str):
    from bitlane_studies.sparse.dense_workers import WorkerPlan

    spec = ModelSpec("dnn", fields=2, dim=2, hidden=(3,), batch_rows=256, seed=seed)
    return WorkerPlan(spec, 2, ways, (), Path(), TIMEOUT, seed)


def _textbook(plan, clocks: int, mean: bool) -> np.ndarray:
    """The weights after some clocks, one weight at a time, in the order of the names of the matrices."""
    from bitlane.sparse.models.model import SparseModel
    from bitlane_studies.sparse.dense_workers import BATCHES, gradients_of

    gradients = [gradients_of(plan, worker) for worker in range(plan.workers)]
    first = SparseModel(plan.spec).pull_dense()
    found = []
    for name in sorted(first):
        for at, weight in np.ndenumerate(first[name]):
            adagrad = TextbookAdaGrad(plan.spec.dense_optimizer.learning_rate)
            adagrad.start_at(float(weight))
            for clock in range(clocks):
                steps = [float(each[clock % BATCHES][name][at]) for each in gradients]
                for step in [sum(steps) / len(steps)] if mean else steps:
                    adagrad.step(step)
            found.append(adagrad.weight)
    return np.array(found)


def test_the_weights_and_the_bytes_of_each_way(seed):
    from bitlane_studies.sparse.dense_parts import WARM_UP, measure, started
    from bitlane_studies.sparse.dense_workers import Run

    plan = _plan(seed, "servers", "all-reduce", "none")
    with started(plan, 2) as workers:
        costs = measure(workers, CLOCKS)
        last = {way: workers.run(Run(way, WARM_UP + CLOCKS + 1), TIMEOUT) for way in plan.ways}
    for way, ran in last.items():
        expected = _textbook(plan, WARM_UP + CLOCKS + 1, mean=way != "servers")
        np.testing.assert_allclose(ran[0].weights, expected, rtol=1e-4, atol=1e-6)
        assert all(len(each.milliseconds) == 1 for each in ran)
    for way, cost in costs.items():
        least = 4 * len(expected)  # two ranks: each sends half of the values twice, or all once
        assert cost.milliseconds.shape == (2 * CLOCKS,) and (cost.milliseconds > 0).all()
        assert cost.sent >= least and cost.received >= least, way
        assert cost.sent < least + 2500, way  # with the frames of the transport


def test_a_worker_that_dies_is_replaced_and_each_step_is_taken_once(seed):
    from bitlane_studies.sparse.dense_parts import PAUSE, die, expected_weights, started

    plan = _plan(seed, "servers")
    with started(plan, 2) as workers:
        death = die(workers, "servers", signal.SIGKILL, CLOCKS)
    assert death.clocks == (CLOCKS,) and death.outcome == "1 of 1 go on; the bits of an undisturbed run"
    assert death.back >= PAUSE and death.seconds[0] >= PAUSE
    np.testing.assert_allclose(expected_weights(plan, CLOCKS), _textbook(plan, CLOCKS, False), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("number", "timeout"), [(signal.SIGKILL, 30.0), (signal.SIGSTOP, 3.0)])
def test_all_reduce_fails_when_a_worker_dies(seed, number, timeout):
    from bitlane_studies.sparse.dense_parts import die, started

    with started(replace(_plan(seed, "none"), timeout=timeout), 1) as workers:
        death = die(workers, "none", number, CLOCKS)
    assert death.clocks == (CLOCKS // 2,) and death.back is None
    assert death.outcome.startswith("1 of 1 fail: rank 0 got no answer from another rank")
    assert number == signal.SIGKILL or death.seconds[0] >= timeout


def test_the_command_prints_its_table(capsys):
    from bitlane_studies.sparse import dense_parts

    dense_parts.main(["qsgd:bits=8", "--hidden", "4", "--workers", "2", "--clocks", "3", "--no-deaths"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("329 weights, 2 workers, 2 servers  ")
    assert [line.split()[0] for line in lines[2:]] == ["servers", "all-reduce", "qsgd:bits=8"]


def test_the_table_of_deaths():
    from bitlane_studies.sparse.dense_parts import Death, death_table

    deaths = {
        ("servers", "killed"): Death((50, 50), (7.24, 7.26), 6.0, "2 of 2 go on"),
        ("all-reduce", "killed"): Death((25, 24), (0.01, 30.0), None, "2 of 2 fail: Connection reset by peer"),
    }
    lines = death_table(deaths).splitlines()
    assert lines[2].split("  ")[0] == "servers" and "7.2 7.3" in lines[2] and "50 50" in lines[2]
    assert lines[3].split()[-8:] == ["2", "of", "2", "fail:", "Connection", "reset", "by", "peer"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "1"], "--workers must be at least 2"),
        (["--hidden", "a"], "invalid literal"),
        (["gzip"], "unknown compressor 'gzip'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message, capsys):
    from bitlane_studies.sparse import dense_parts

    with pytest.raises(SystemExit) as error:
        dense_parts.main(arguments)
    assert error.value.code == 2 and message in capsys.readouterr().err
