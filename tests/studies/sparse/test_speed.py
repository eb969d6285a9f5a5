"""The speed study on a toy, from the command line to the report."""

from __future__ import annotations

import re

import pytest

from bitlane.sparse.models.spec import ModelSpec
from bitlane_studies.sparse.duels import Study
from bitlane_studies.sparse.ours import Ours
from bitlane_studies.sparse.rivals import VowpalWabbit
from bitlane_studies.sparse.speed import duels_of, main, parser


def test_every_grid_has_as_many_points(tmp_path):
    duels = duels_of(parser().parse_args([]), tmp_path)
    assert {len(each.grid) for duel in duels for each in (duel.ours, duel.rival)} == {4}
    assert {duel.model for duel in duels} == {"LR", "FM 8", "FFM 4"}
    for duel in duels:
        for setting in duel.ours.grid:
            assert isinstance(duel.ours.spec(setting, fields=5), ModelSpec)


def test_both_linear_models_have_the_same_settings():
    spec = Ours("lr", "text").spec({"alpha": 0.3}, 1)
    assert Ours("lr", "text").grid == VowpalWabbit().grid
    assert (spec.linear.beta, spec.linear.l1, spec.linear.l2) == (1.0, 0.0, 0.0)


def test_unknown_models_are_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--models", "lr,tree"])
    assert "'lr,tree': choose of lr, fm, ffm" in capsys.readouterr().err


def test_unknown_data_are_refused(capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.delenv("BITLANE_DATA", raising=False)
    assert main(["--data", "nothing"]) == 2
    assert capsys.readouterr().err.startswith("speed: no file matches 'nothing'")


@pytest.mark.slow
def test_a_toy(capsys, monkeypatch, tmp_path):
    """Generated rows, without tuning; the programs that need a source are missing and say how to get them."""
    pytest.importorskip("sklearn")
    monkeypatch.setattr(Study, "tune", lambda study, contender, passes: contender.grid[1])
    arguments = ["--data", "generated", "--rows", "3000", "--repeat", "1", "--models", "lr,ffm"]
    assert main([*arguments, "--work", str(tmp_path)]) == 0
    report = capsys.readouterr().out
    assert report.startswith("generated: 2,400 rows to train, 600 held out, 10.0 features a row, ")
    assert "libffm is missing: git clone https://github.com/ycjuan/libffm" in report
    table, _, cores = report.partition("cores, in one run each:\n")
    programs = ["Vowpal Wabbit"] * 2 if VowpalWabbit().missing() is None else []
    lines = [line for line in table.splitlines() if line.startswith("LR ")]
    assert len(lines) == 2 * len(programs) + 4
    for line, name in zip(lines[1::2], [*programs, "scikit-learn", "scikit-learn"], strict=True):
        assert re.match(rf"LR +{name}", line)
    for line in lines[0::2]:
        assert re.match(r"LR +bitlane .* \d+\.\d\d$", line)
    assert len(re.findall(r"^FFM(?: +0\.\d{4}){3}$", table, re.MULTILINE)) == 1
    assert len(re.findall(r"^(?:LR|FFM) +bitlane .* \d+\.\d%$", cores, re.MULTILINE)) == 4
