"""More epochs do not make a training worse: some random trainings, and the table of the study."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from bitlane.devices.cpu import CpuDevice
from bitlane_studies import longer_training
from bitlane_studies.longer_training import LongerCase, main, random_case, summary

CASES = 60


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_more_epochs_do_not_make_the_loss_worse(seed: int) -> None:
    """3 of 100 cases end higher, most of them hinge with 2 bits. Without a ridge half of those with 4 bits do."""
    with closing(CpuDevice()) as device:
        cases = [random_case(seed + i, device) for i in range(CASES)]
    assert sum(case.worse for case in cases) <= CASES // 6, summary(cases)
    for case in cases:
        most = 1.6 if case.bits == 2 else 1.25
        assert case.ratio < most, case


def test_summary() -> None:
    cases = [LongerCase(0, "wide", "hinge", "slow", 4, 50, *losses) for losses in ((0.5, 0.4), (0.5, 0.51), (0, 2e-4))]
    assert [case.worse for case in cases] == [False, True, False]
    (row,) = summary(cases)[1:]
    assert row[:5] == ["hinge", "4", "0 of 0", "0 of 0", "1 of 3"] and float(row[5]) == round(cases[2].ratio, 3)


def test_exit_status(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    for long, status in ((0.9, 0), (1.2, 1)):
        made = LongerCase(3, "wide", "hinge", "slow", 4, 50, 1.0, long)
        monkeypatch.setattr(longer_training, "random_case", lambda seed, device, made=made: made)
        monkeypatch.setattr(sys, "argv", ["longer", "--runs", "2", "--seed", "3"])
        assert main() == status
        assert f"2 cases from seed 3, {2 * status} worse" in capsys.readouterr().out


def test_tables_of_all_kinds_have_noise_and_rows(seed: int) -> None:
    rng, kinds = np.random.default_rng(seed), set()
    for _ in range(80):
        kind, X, y = longer_training.random_table(rng)
        kinds.add(kind)
        assert X.shape[0] == len(y) and np.isfinite(X).all() and np.ptp(y) > 0
    assert kinds == set(longer_training.KINDS)
