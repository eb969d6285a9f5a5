"""The programs of processors, on a small table."""

import os
import re

import numpy as np
import pytest

from bitlane_studies.when_it_wins import __main__ as study
from bitlane_studies.when_it_wins import programs
from bitlane_studies.when_it_wins.programs import FLOAT, cores, measure, on_several_cores

pytest.importorskip("threadpoolctl")


@pytest.fixture
def table(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1500, 6)).astype(np.float32)
    return X, (X @ np.arange(6) + rng.normal(size=1500)).astype(np.float32)


def test_all_programs_end_at_the_loss_of_least_squares(table: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = table
    found = measure(X, y, 16, 1)
    wide = np.column_stack([X, np.ones(len(X))]).astype(float)
    least = float(np.mean((wide @ np.linalg.lstsq(wide, y, rcond=None)[0] - y) ** 2))
    assert {name for name, _ in found} == set(programs.programs())
    for fit in found.values():
        assert 0.999 * least < fit.loss < 1.1 * least and 0 < fit.train_seconds < fit.seconds


def test_cores_are_those_that_were_allowed_and_come_back() -> None:
    before = os.sched_getaffinity(0)
    with cores(1):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before


def test_the_model_of_several_cores() -> None:
    """Shares of the work, and a wait for each batch: without batches eight cores take an eighth."""
    assert on_several_cores(8.0, 0) == 1.0
    assert on_several_cores(8.0, 1000, 4, sync=1e-3) == pytest.approx(3.0)


def test_the_whole_study(
    table: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study, "mnist", lambda rows: tuple(part[:rows] for part in table))
    study.main(["--repeats", "1", "--rows", "1200"])
    told = capsys.readouterr().out
    for batch in study.BATCHES:  # measured, and modelled
        assert len(re.findall(f"^ *{batch} +{FLOAT} ", told, re.MULTILINE)) == len(programs.core_counts()) + 1
    assert told.count("8 cores, model") == 6 and told.count("300 MHz assumed, predicted") == 18
    assert told.count("PYNQ-Z2") == 6 and told.count("encoded before") == 3
