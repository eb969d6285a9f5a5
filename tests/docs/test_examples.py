"""The examples run: those that are programs, with toy sizes."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Callable

import pytest
from tests.helpers.places import ROOT

for library in ("numba", "pyarrow", "xxhash", "optuna"):
    pytest.importorskip(library)

TUNING = ROOT / "examples" / "sparse_tuning.py"
RATES = r"--model fm --linear-rate [\d.e-]+ --learning-rate [\d.e-]+"


@pytest.fixture
def tune(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Run the tuning with some arguments in this process; return its lines."""

    def tuned(*arguments: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", ["sparse_tuning.py", "--rows", "2000", "--trials", "3", *arguments])
        runpy.run_path(str(TUNING), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return tuned


def test_tuning_of_a_sparse_model(seed: int, tune: Callable[..., list[str]]) -> None:
    *trials, last = tune("--seed", str(seed))
    assert [re.match(r"trial (\d): ", line)[1] for line in trials] == ["1", "2", "3"]
    losses = [float(found[1]) for line in trials if (found := re.search(r"log loss ([\d.]+)$", line))]
    assert re.fullmatch(rf"best log loss {min(losses):.4f}: {RATES}", last)


def test_tuning_stops_bad_trials(monkeypatch: pytest.MonkeyPatch, tune: Callable[..., list[str]]) -> None:
    """A pruner that takes every trial for bad from its third window on, except the first trial."""
    import optuna

    class Pruner(optuna.pruners.BasePruner):
        def prune(self, study, trial) -> bool:
            return trial.number > 0 and trial.last_step >= 3

    monkeypatch.setattr(optuna.pruners, "MedianPruner", lambda **_: Pruner())
    endings = [line.rpartition(": ")[2] for line in tune()[:3]]
    assert endings[0].startswith("log loss ")
    assert endings[1:] == ["stopped after 3 windows"] * 2
