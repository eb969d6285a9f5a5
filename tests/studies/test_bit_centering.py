"""The study of bit centering: rows are rounded as encoded, all ways end at one optimum, both tables are printed."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.contract.precision import Precision
from bitlane.quantization.positions import position_map
from bitlane.quantization.quantize import base_codes
from bitlane.quantization.scaling import fit_scaling
from bitlane_studies import bit_centering as study


def small_problem(rng: np.random.Generator, margins: bool) -> study.ScaledProblem:
    values = rng.uniform(-1, 1, (400, 3))
    score = values @ rng.normal(size=3) + 0.3 * rng.normal(size=400)
    target = np.sign(score) if margins else score
    return study.ScaledProblem(values.astype(np.float32), target.astype(np.float32), np.full(3, 1e-4), margins)


def test_rounded_rows_are_those_of_the_encoder(seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(500, 4))
    scaling = fit_scaling(X, X[:, :1])
    codes = base_codes(position_map(scaling, Precision(8, "nearest")).positions(X), Precision(8, "nearest"), None)
    assert (study.rounded(scaling.values(X)) == (2.0 * codes - 255) / 256).mean() > 0.999  # positions are rounded too


@pytest.mark.parametrize("way", study.WAYS)
@pytest.mark.parametrize("margins", [False, True])
def test_every_way_ends_at_the_optimum(seed: int, way: str, margins: bool) -> None:
    problem = small_problem(np.random.default_rng(seed), margins)
    goal = problem.optimum()[0] * 1.001
    assert 1 < study.passes_of(problem, way, 0.5, goal) < study.MOST_PASSES
    assert study.passes_of(problem, way, 0.5, goal / 2) == study.MOST_PASSES


def test_optimum_is_that_of_scipy(seed: int) -> None:
    for margins in (False, True):
        problem = small_problem(np.random.default_rng(seed), margins)
        least, weights = problem.optimum()
        assert study.lbfgs_passes(problem, least * 1.0001) < 60
        assert problem.sums(weights)[0] == pytest.approx(least)
        assert np.abs(problem.sums(weights)[1]).max() < 1e-3


def test_both_tables_are_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    X = np.random.default_rng(0).normal(size=(600, 4))
    monkeypatch.setattr(study, "study_table", lambda name: (X, np.where(X[:, 0] > X[:, 1] ** 2, 1.0, -1.0), True))
    assert study.main(["made"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (first,) = [line for line in lines if line.startswith("made, 600 x 4")]
    assert "log_loss" in first and float(first.split()[-1]) < 1e-3
    assert len(lines[-1].split()) == 1 + len(study.WAYS)
