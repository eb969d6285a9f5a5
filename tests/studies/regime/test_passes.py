"""Counts of passes to the optimum, on tables whose optimum another solver finds."""

from __future__ import annotations

import pytest

from bitlane.errors import BitlaneError
from bitlane_studies.regime import cells, passes, tables
from bitlane_studies.regime.optimum import optimum_of
from bitlane_studies.regime.problems import FitProblem, standardise


@pytest.mark.parametrize(("loss", "labels"), [("squared_error", "numbers"), ("log_loss", "first"), ("hinge", "first")])
def test_the_optimum_takes_few_passes(loss: str, labels: str, seed: int) -> None:
    X, y = tables.dense(2_000, 8, labels, seed)
    standardise(X, shifted=True)
    problem = FitProblem(X, y, loss)
    least = optimum_of(problem)[0]
    found = passes.passes_to(problem, least)
    assert found.passes <= passes.MOST and -1e-4 < found.excess <= passes.TARGET
    assert found.bytes_read >= found.passes * X.size
    too_low = passes.passes_to(problem, least / 2)
    assert too_low.excess > 0.9


def test_pairs_within_the_passes_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(passes, "PAIRS", (cells.MapCell("tiny", "dense", "squared_error", "numbers", 300, 3),))
    assert passes.main([]) == 0
    assert "within 40 passes: 1 of 1" in capsys.readouterr().out
    monkeypatch.setattr(passes, "MOST", 0)
    assert passes.main(["--tables", "ti"]) == 1
    with pytest.raises(BitlaneError, match="no such table; there are tiny"):
        passes.main(["--tables", "x"])
