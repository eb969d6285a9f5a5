"""The examples run: those that are programs, with toy sizes."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys

import pytest
from tests.helpers.places import ROOT

for library in ("numba", "pyarrow", "xxhash", "optuna"):
    pytest.importorskip(library)

TUNING = ROOT / "examples" / "sparse_tuning.py"
RATES = r"--model fm --linear-rate [\d.e-]+ --learning-rate [\d.e-]+"


def test_tuning_of_a_sparse_model(seed: int) -> None:
    command = [sys.executable, TUNING, "--rows", "2000", "--trials", "3", "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *trials, last = done.stdout.splitlines()
    assert [re.match(r"trial (\d): ", line)[1] for line in trials] == ["1", "2", "3"]
    losses = [float(found[1]) for line in trials if (found := re.search(r"log loss ([\d.]+)$", line))]
    assert re.fullmatch(rf"best log loss {min(losses):.4f}: {RATES}", last)


def test_tuning_stops_bad_trials(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A pruner that takes every trial for bad from its third window on, except the first trial."""
    import optuna

    class Pruner(optuna.pruners.BasePruner):
        def prune(self, study, trial) -> bool:
            return trial.number > 0 and trial.last_step >= 3

    monkeypatch.setattr(optuna.pruners, "MedianPruner", lambda **_: Pruner())
    monkeypatch.setattr(sys, "argv", ["sparse_tuning.py", "--rows", "2000", "--trials", "3"])
    runpy.run_path(str(TUNING), run_name="__main__")
    endings = [line.rpartition(": ")[2] for line in capsys.readouterr().out.splitlines()[:3]]
    assert endings[0].startswith("log loss ")
    assert endings[1:] == ["stopped after 3 windows"] * 2
