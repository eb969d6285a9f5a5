"""The contest of a cell: its search, its processes and its verdicts, with programs whose answers are known."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from bitlane.errors import BitlaneError
from bitlane_studies.regime import cells, map, one_cell, ours, report, tables, with_numpy, with_others, with_scikit
from bitlane_studies.regime.contender import FittedModels, Program
from bitlane_studies.regime.contest import compete, first_rung
from bitlane_studies.regime.optimum import optimum_of
from bitlane_studies.regime.problems import FitProblem, standardise

pytest.importorskip("sklearn")


def test_the_first_rung_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(100):
        rungs = int(rng.integers(1, 40))
        first, start = int(rng.integers(0, rungs + 1)), int(rng.integers(0, rungs + 3))
        asked: set[int] = set()

        def reaches(index: int, first: int = first, asked: set[int] = asked) -> bool:
            asked.add(index)
            return index >= first

        assert first_rung(reaches, rungs, start) == (first if first < rungs else None)
        assert len(asked) <= 12
    assert first_rung(lambda index: None, 5) is None


def answer(least: FittedModels, excess: float, seconds: float = 0.0) -> FittedModels:
    time.sleep(seconds)
    return FittedModels(least.coef, least.intercept + excess, 7)


@pytest.fixture(scope="module")
def small() -> tuple[FitProblem, float, FittedModels]:
    problem = FitProblem(*tables.dense(500, 3, "numbers"), "squared_error")
    least, coef, intercept = optimum_of(problem)
    return problem, least, FittedModels(coef, intercept)


def test_programs_are_timed_stopped_and_told(small: tuple[FitProblem, float, FittedModels]) -> None:
    problem, least, models = small

    def crash(problem: FitProblem, rung: int, given: object) -> FittedModels:
        raise ValueError("no such thing")

    programs = [
        Program(
            "exact", lambda p, rung, given: answer(models, 1 / 2**rung), lambda p: range(12), version="1", ours=True
        ),
        Program("prepared", lambda p, rung, given: answer(models, given), lambda p: [0], lambda p: 0.0, given="all"),
        Program("slow", lambda p, rung, given: answer(models, 0, 30), lambda p: [0]),
        Program("rough", lambda p, rung, given: answer(models, 0.06), lambda p: ["x", "y"]),
        Program("broken", crash, lambda p: [0]),
    ]
    found, results = compete(problem, programs, least, patience=1.0, repeats=1)
    assert found == pytest.approx(least)
    by_name = {each.name: each for each in results}
    exact = by_name["exact"].reached
    needed = {target: np.sqrt(2 * least * (target - 1)) for target in (1.01, 1.001)}  # a shift adds half its square
    for target, shift in needed.items():
        reached = exact[f"{target:g}"]
        assert reached.setting == str(int(np.ceil(-np.log2(shift)))) and reached.bytes_read == 7
        assert reached.excess <= target - 1 and 0 < reached.warm < 1 and reached.cold > 0
    assert by_name["prepared"].reached["1.001"].excess == pytest.approx(0, abs=1e-9) and by_name["prepared"].given
    assert by_name["slow"].reason == "stopped after 1 s" and not by_name["slow"].reached
    assert list(by_name["rough"].reached) == ["1.01"] and by_name["rough"].reason == "not within 0.1% at y"
    assert by_name["broken"].reason == "ValueError: no such thing"


@pytest.mark.parametrize(
    ("loss", "labels", "more"),
    [
        ("squared_error", "numbers", {}),
        ("squared_error", "numbers", {"folds": 3, "alphas": (0.01, 0.1)}),
        ("log_loss", "first", {}),
        ("log_loss", "first", {"folds": 2, "alphas": (0.01, 0.1)}),
        ("hinge", "first", {}),
        ("squared_error", "numbers", {"penalty": "l1", "alphas": (0.01,)}),
        ("log_loss", "first", {"penalty": "l1", "alphas": (0.01,)}),
    ],
)
def test_the_programs_come_near_the_optimum(loss: str, labels: str, more: dict[str, object], seed: int) -> None:
    """A wrong penalty, scale or label ends far from it; liblinear alone also shrinks the intercept."""
    X, y = tables.one_hot(300, 40, labels, seed)
    standardise(X, shifted=False)
    problem = FitProblem(X, y, loss, sparse=True, **more)  # type: ignore[arg-type]
    least, _, constant = optimum_of(problem)
    constant = problem.objective(np.zeros((*problem.shape_of_models, 40)), constant)
    found = 0
    compiled = [each for each in with_others.programs(problem) if each.name == "Snap ML"]  # the others compile for long
    peers = *with_numpy.programs(problem), *with_scikit.programs(problem), *compiled
    for program in (*ours.programs(problem), *peers):
        given = program.prepare(problem) if program.prepare else {}
        rungs = list(program.ladder(problem))
        models = program.fit(problem, rungs[min(len(rungs) - 1, 12)], given)
        excess = (problem.objective(models.coef, models.intercept) - least) / (constant - least)
        assert -1e-4 < excess < (1 if "SGD" in program.name else 0.5), (program.name, excess)
        found += 1
    assert found


def test_a_small_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A cell is measured once, in this process; the report has its table and picture."""
    cell = cells.MapCell("tiny", "dense", "squared_error", "numbers", 200, 3)
    monkeypatch.setattr(cells, "CELLS", (cell,))
    monkeypatch.setattr(one_cell, "programs_for", lambda problem: list(with_numpy.programs(problem))[:1])
    calls = []

    def here(arguments: list[str], cores: list[int]) -> None:
        calls.append(arguments[0])
        monkeypatch.setattr("sys.argv", ["one_cell", *arguments])
        one_cell.main()

    monkeypatch.setattr(map, "child", here)
    for _ in range(2):
        assert map.main(["--out", str(tmp_path), "--patience", "5"]) == 0
    assert calls == ["tiny"]
    assert "numpy, Gram matrix" in capsys.readouterr().out
    assert (tmp_path / "map.svg").exists() and "## tiny" in (tmp_path / "programs.md").read_text()
    assert json.loads((tmp_path / "cells" / "tiny.json").read_text())["rows"] == 200
    with pytest.raises(BitlaneError, match="no cell 'none'"):
        map.main(["--cells", "none"])


def test_the_verdict_names_the_winner() -> None:
    def program(name: str, ours: bool, seconds: float | None, given: str = "") -> dict[str, object]:
        reached = {} if seconds is None else {"1.001": {"warm": seconds, "cold": seconds}}
        return {"name": name, "ours": ours, "reached": reached, "given": given}

    def told(*programs: dict[str, object]) -> str:
        return report.winner(report.verdict({"programs": list(programs)}))

    ours, rival = program("bitlane", True, 1.0), program("numpy", False, 3.0)
    assert told(ours, rival) == "**bitlane**, 3.0 times"
    assert told(ours, program("numpy", False, 0.25), rival) == "numpy, 4.0 times"
    assert told(ours, program("numpy", False, 1.05)) == "either"
    assert told(program("bitlane", True, None), rival) == "numpy"
    assert told(program("bitlane, encoded", True, 0.1, "the encoded table"), ours, rival) == "**bitlane**, 3.0 times"
    assert told(program("bitlane", True, None)) == "none reached it"
