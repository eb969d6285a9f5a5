"""`bitlane encode`: what it writes, appends and tells, and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bitlane.cli.main import main
from bitlane.encoded.table import EncodedTable


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    rows = np.column_stack([rng.normal(size=(200, 3)), rng.integers(0, 4, 200), np.ones(200)])
    np.savetxt("t.csv", rows, delimiter=",", header="a,b,y,fold,one", comments="")
    return tmp_path


def test_a_csv_file_becomes_a_table(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["encode", "t.csv", "--target", "y", "--groups", "fold", "--out", "t.bits"]) == 0
    told = capsys.readouterr().out
    assert "t.bits: 200 rows, 3 columns, 1 of them constant, 8 bits a value" in told
    encoded = EncodedTable.open("t.bits")
    assert encoded.column_names == ("a", "b", "one")
    assert encoded.targets == ("y",)
    assert sorted(set(encoded.groups.tolist())) == [0, 1, 2, 3]
    assert main(["encode", "t.csv", "--target", "y", "--groups", "fold", "--out", "t.bits", "--append", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == 400
    assert found["clipped_values_appended"] == 0
    assert found["bytes"] == Path("t.bits").stat().st_size


def test_commands_take_an_encoded_table(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(300, 3))
    rows = np.column_stack([rows, rows.sum(axis=1), rows[:, 0] - rows[:, 1], rng.integers(0, 3, 300)])
    np.savetxt("u.csv", rows, delimiter=",", header="a,b,c,y,z,w", comments="")
    assert main(["encode", "u.csv", "--target", "y,z", "--weight", "w", "--out", "u.bits"]) == 0
    of_encoded = ["--device", "emulator", "--bits", "8", "--epochs", "10"]
    assert main(["train", "u.bits", "--target", "y", "--test-fraction", "0.2", *of_encoded, "--out", "run"]) == 0
    capsys.readouterr()
    for data in ("u.bits", "u.csv"):
        assert main(["evaluate", "run", data]) == 0
        assert float(capsys.readouterr().out.split("R squared")[1].split()[0]) > 0.99
    assert main(["predict", "run", "u.bits", "--out", "p.npz"]) == 0
    assert np.abs(np.load("p.npz")["prediction"] - rows[:, 3]).max() < 0.5
    assert main(["train", "u.bits", "--target", "z", "--ignore", "c", *of_encoded]) == 0
    assert main(["compare", "u.bits", "--target", "z", "--bits", "4", "--epochs", "2", "--device", "emulator"]) == 0
    assert main(["plan", "u.bits", "--target", "z"]) == 0
    capsys.readouterr()
    for arguments, message in (
        ("train u.bits", "u.bits has 2 targets: name one with --target"),
        ("train u.bits --target a", "column 'a' is encoded, not a label"),
        ("train u.bits --target y --impute", "omit --impute"),
        ("train u.bits --target y --bits 10", "--bits 10: the table stores 8 bits a value"),
    ):
        assert main(arguments.split()) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("none.csv --out t.bits", "no file none.csv"),
        ("t.csv --out t.csv", "--out t.csv is the table itself"),
        ("t.csv --out none/t.bits", "not a file name in an existing folder"),
        ("t.csv --out t.bits --bits 5", "--bits 5: choose an even number from 2 to 16"),
        ("t.csv --out t.bits --target z", "--target z: t.csv has no such column"),
        ("t.csv --out t.bits --append", "--append: there is no file t.bits"),
        ("t.csv --out u.csv --append", "--append: there is no file u.csv"),
        ("t.csv --out t.bits --like t.csv --bits 4", "--bits: the scales are those of --like t.csv"),
        ("t.csv --out t.bits --range 3,1", "the low end must be below the high end"),
        ("t.csv --out t.bits --groups a", "the group of row 1 is no integer"),
        ("t.csv --out t.bits --weight a", "is negative"),
    ],
)
def test_errors(table: Path, capsys: pytest.CaptureFixture[str], arguments: str, message: str) -> None:
    content = (table / "t.csv").read_bytes()
    assert main(["encode", *arguments.split()]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert [path.name for path in table.iterdir()] == ["t.csv"]
    assert (table / "t.csv").read_bytes() == content
