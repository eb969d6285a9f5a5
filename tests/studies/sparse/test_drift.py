"""The study of drift, on few rows."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest

from bitlane.sparse import ClickLog, ClickLogSettings, ModelSpec
from bitlane_studies.sparse import drift as study

pytest.importorskip("numba")
NAMES = ["every key", "admission", "admission and expiry"]


def plan_of(seed: int) -> study.Plan:
    log = ClickLogSettings(fields=5, keys=2000, growth=1.0, churn=50.0, seed=seed)
    return study.Plan(log, 20_000, ModelSpec("lr"), sightings=3, cells=1 << 20, expire_rows=2000)


def test_all_keys_are_counted(seed: int) -> None:
    plan = plan_of(seed)
    keys, size, seconds = study.count_keys(plan)
    assert keys == len(np.unique(ClickLog(plan.log).batch(0, plan.rows).keys))
    assert keys * 12 < size and seconds > 0


def test_trainings_keep_the_keys_they_say(seed: int) -> None:
    plan = plan_of(seed)
    every, admitted, expired = (study.train(plan, name) for name in NAMES)
    found, counts = np.unique(ClickLog(plan.log).batch(0, plan.rows).keys, return_counts=True)
    assert every.windows[-1].table_rows == len(found)
    assert admitted.windows[-1].table_rows == (counts >= 3).sum()
    window = expired.windows[-1]
    assert window.table_rows < admitted.windows[-1].table_rows
    assert window.table_rows <= len(np.unique(ClickLog(plan.log).batch(plan.rows - 5000, 5000).keys))
    often = np.unique(ClickLog(plan.log).batch(plan.rows - 1000, 1000).keys, return_counts=True)[1] >= 3
    assert window.table_rows >= often.sum()
    for each in (every, admitted, expired):
        assert [one.rows_done for one in each.windows] == list(range(400, 20_400, 400))
        assert all(0.3 < auc < 1 for auc in each.aucs[10:])
        assert each.memory[-1] == each.windows[-1].table_bytes + each.sketch_bytes
    assert (every.sketch_bytes, admitted.sketch_bytes) == (0, 1 << 20)


def test_the_ceiling_is_above_the_model(seed: int) -> None:
    plan = plan_of(seed)
    best, training = study.ceiling(plan), study.train(plan, "every key")
    assert len(best) == len(training.aucs) == study.WINDOWS
    assert np.mean(best) > np.mean(training.aucs) + 0.02


def test_the_command_prints_and_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    small = ["--scale", "1e-4", "--model", "lr", "--keys", "1e7", "--cells", "1e8"]
    study.main([*small, "--out", str(tmp_path / "drift.png")])
    printed = capsys.readouterr().out
    assert printed.startswith("7,500 rows, 75,000 features, ") and "different keys (counted in" in printed
    lines = printed.splitlines()
    assert [line for name in NAMES for line in lines if line.startswith(f"{name}  ")]
    assert (tmp_path / "drift.png").read_bytes().startswith(b"\x89PNG")
    study.main([*small, "--only", "admission"])
    printed = capsys.readouterr().out
    assert "admission: " in printed and "every key" not in printed
    with pytest.raises(SystemExit):
        study.main([*small, "--only", "nothing"])
    assert "choose among 'every key', 'admission', 'admission and expiry'" in capsys.readouterr().err


def test_a_scaled_plan_has_the_same_shape() -> None:
    arguments = argparse.Namespace(
        **{"scale": 0.1, "keys": 1e6, "growth": 2.0, "zipf": 1.0, "churn": 0.5, "turn": 0.2, "seed": 7, "rows": 1e6},
        **{"model": "fm", "dim": 2, "sightings": 4, "cells": 1e6, "expire_rows": 1e5},
    )
    plan = study.plan_of(arguments)
    assert (plan.rows, plan.log.keys, plan.log.churn, plan.log.turn, plan.log.seed) == (100_000, 100_000, 5.0, 2.0, 7)
    assert (plan.sightings, plan.cells, plan.expire_rows, plan.spec.dim) == (4, 100_000, 10_000, 2)
