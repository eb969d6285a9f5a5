"""`bitlane sparse schema`, and a training with the schema that it proposes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bitlane.cli.main import main
from bitlane.sparse.training.log import read_log


def test_a_proposed_schema_trains_the_same_model(clicks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sparse", "schema", str(clicks), "--target", "click", "--cross", "user,item"]) == 0
    printed = capsys.readouterr().out
    assert (
        printed.startswith('label = "click"\n') and '"user" = "text"' in printed and '"price" = { centre = ' in printed
    )
    assert main(["sparse", "schema", str(clicks), "--target", "click", "--cross", "user,item", "--out", "s.toml"]) == 0
    assert Path("s.toml").read_text() == printed
    train = ["sparse", "train", str(clicks), "--model", "fm", "--test-fraction", "0.2"]
    assert main([*train, "--target", "click", "--cross", "user,item", "--out", "one"]) == 0
    assert main([*train, "--schema", "s.toml", "--out", "two"]) == 0
    assert read_log("one")[-1]["auc"] == read_log("two")[-1]["auc"]
    Path("s.toml").write_text(printed.replace('"item" = "text"\n', "").replace('crosses = [["user", "item"]]\n', ""))
    capsys.readouterr()
    assert main([*train, "--schema", "s.toml"]) == 0
    said = capsys.readouterr().err
    assert "categorical user (text); numeric price" in said and "item" not in said


def test_mistakes_are_one_line(clicks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.toml").write_text('label = "click"\n[categorical]\n"usr" = "text"\n')
    for arguments, message in (
        (["train", str(clicks), "--schema", "s.toml"], "there is no column 'usr'; did you mean 'user'?"),
        (["train", str(clicks), "--schema", "s.toml", "--target", "click"], "--target: say it in s.toml, the file of"),
        (["train", str(clicks), "--schema", "gone.toml"], "gone.toml cannot be read"),
        (
            ["train", str(clicks), "--schema", "s.toml", "--several-separator", "|"],
            "--several-separator: say it in s",
        ),
        (["train", str(clicks), "--schema", "s.toml", "--several-pooling", "mean"], "--several-pooling: say it in s"),
        (["schema", str(clicks), "--schema", "s.toml"], "--schema s.toml: this command proposes a schema; omit it"),
        (["schema", str(clicks)], "there is no label column 'label'; there are click, user"),
    ):
        capsys.readouterr()
        assert main(["sparse", *arguments]) == 2
        (line,) = capsys.readouterr().err.splitlines()[-1:]
        assert message in line, line
