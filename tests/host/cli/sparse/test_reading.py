"""Files as people have them: separators, decimal commas, encodings, comments, no header; and a schema for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bitlane.cli.main import main
from bitlane.sparse.training.log import read_log

Trains = Callable[..., str]
Fails = Callable[..., str]
GERMAN = ["--sep", ";", "--encoding", "latin1", "--comment", "#", "--decimal", ","]
SCHEMA = """label = "label"
crosses = [["sort", "hour(at)"]]
[categorical]
"s*" = "text"
[numeric]
price = { log1p = true, standard = true }
"count*" = { buckets = "log" }
age = { buckets = 4 }
[times]
at = { hour = "Europe/Berlin", weekday = "UTC" }
"""


@pytest.fixture
def rows(here: Path) -> list[dict[str, object]]:
    """Rows of prices with a long tail, written as `english.csv` and `german.csv`."""
    rng = np.random.default_rng(4)
    found: list[dict[str, object]] = []
    for _ in range(600):
        price = round(float(rng.lognormal(3, 2)), 2)
        found.append(
            {
                "label": int(rng.random() < 1 / (1 + np.exp(3 - np.log1p(price)))),
                "sort": f"Käse{rng.integers(5)}",
                "price": price,
                "count1": int(rng.integers(-3, 900)),
                "age": float(rng.integers(20, 70)) + 0.5,
                "at": 1_700_000_000 + int(rng.integers(10**6)),
            }
        )
    lines = [",".join(map(str, row.values())) for row in found]
    Path("english.csv").write_text("\n".join([",".join(found[0]), *lines]) + "\n", encoding="utf-8")
    german = [";".join(str(cell).replace(".", ",") for cell in row.values()) for row in found]
    german.insert(300, '# half; of, the " rows')
    Path("german.csv").write_text("\n".join(["# of 2023", ";".join(found[0]), *german]) + "\n", encoding="latin1")
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")
    return found


def test_the_same_model_from_either(
    rows: object, trains: Trains, fails: Fails, capsys: pytest.CaptureFixture[str]
) -> None:
    del rows
    common = ["--model", "lr", "--test-fraction", "0.2"]
    trains("english.csv", *common, "--out", "one")
    trains("german.csv", *common, *GERMAN, "--out", "two")
    for name in ("parameters.arrow", "dense.npz"):
        assert Path("one/model", name).read_bytes() == Path("two/model", name).read_bytes()
    assert main(["sparse", "evaluate", "two", "german.csv", "--test-fraction", "0.2"]) == 0
    english = ["--sep", ",", "--encoding", "utf-8", "--decimal", ".", "--comment", "//"]
    for run, data, options in (
        ("one", "german.csv", GERMAN),
        ("two", "english.csv", english),
        ("two", "german.csv", []),
    ):
        assert main(["sparse", "predict", run, data, *options, "--out", f"{run}-{data}"]) == 0
    found = [Path(name).read_text() for name in ("one-german.csv", "two-english.csv", "two-german.csv")]
    assert found[0] == found[1] == found[2]
    capsys.readouterr()
    error = fails("sparse", "predict", "two", "english.csv", "--sep", ",", "--encoding", "utf-8", "--out", "x.csv")
    assert "which is not a finite number with a decimal comma; points between thousands are not read" in error


def test_held_out_rows_of_another_kind(
    rows: object, trains: Trains, fails: Fails, capsys: pytest.CaptureFixture[str]
) -> None:
    del rows
    trains("english.csv", "--model", "lr", "--test-fraction", "0.2", "--out", "run")
    Path("german.dat").write_bytes(Path("german.csv").read_bytes())
    held_out = ["--held-out", "german.dat", "--allow-learned"]
    for command in (
        ["publish", "run", "models/m", "--bits", "8"],
        ["publish", "run", "models/m", "--calibrate", "platt"],
    ):
        capsys.readouterr()
        assert "german.dat: unknown format" in fails("sparse", *command, *held_out)
        assert main(["sparse", *command, *held_out, "--format", "csv", *GERMAN]) == 0
    for command in (["validate", "models/m", "latest"], ["promote", "models/m", "latest"]):
        bounds = ["--max-miscalibration", "9"]
        assert main(["sparse", *command, *held_out, *bounds, "--format", "csv", *GERMAN]) == 0
    capsys.readouterr()
    assert "--encoding needs --held-out" in fails("sparse", "promote", "models/m", "latest", "--encoding", "latin1")
    assert "--sep needs --bits or --calibrate" in fails("sparse", "publish", "run", "models/m", "--sep", ";")


def test_a_version_keeps_how_its_files_are_read(rows: object, trains: Trains) -> None:
    del rows
    trains("german.csv", "--model", "lr", "--test-fraction", "0.2", *GERMAN, "--out", "run")
    assert main(["sparse", "publish", "run", "models/m"]) == 0
    checks = ["--held-out", "german.csv", "--test-fraction", "0.2", "--max-miscalibration", "9"]
    assert main(["sparse", "promote", "models/m", "latest", *checks]) == 0


def test_a_schema_with_transforms_is_repeated_on_raw_values(
    rows: list[dict[str, object]], trains: Trains, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("s.toml").write_text(SCHEMA)
    common = ["--schema", "s.toml", "--model", "lr", "--test-fraction", "0.2"]
    trains("english.csv", *common, "--out", "one")
    trains("rows.jsonl", *common, "--out", "two")
    reader = '[reader]\nseparator = ";"\nencoding = "latin1"\ncomment = "#"\n'
    Path("de.toml").write_text('decimal = ","\n' + SCHEMA + reader)
    trains("german.csv", "--schema", "de.toml", *common[2:], "--out", "three")
    for run in ("two", "three"):
        assert read_log("one")[-1]["auc"] == read_log(run)[-1]["auc"]
        for name in ("parameters.arrow", "dense.npz"):
            assert Path("one/model", name).read_bytes() == Path(run, "model", name).read_bytes()
    capsys.readouterr()
    assert main(["sparse", "inspect", "one", "--top", "0"]) == 0
    said = capsys.readouterr().out
    assert "categorical sort (text), count1 (84 buckets), age (4 buckets); numeric price (log1p, " in said
    assert "hour(at) in Europe/Berlin; weekday(at) in UTC; crosses sort x hour(at)" in said
    assert main(["sparse", "predict", "one", "rows.jsonl", "--out", "json.csv"]) == 0
    predicted = np.array(Path("json.csv").read_text().split()[1:], float)
    from bitlane.sparse.models.model import SparseModel
    from bitlane.sparse.serving.protocol import batch_of_tensors, read_request
    from bitlane.sparse.serving.requests import RequestBounds
    from bitlane.sparse.serving.served_model import schema_of
    from bitlane.sparse.training.run_folder import read_settings

    settings = read_settings(Path("one/model").resolve())
    assert settings is not None
    schema = schema_of(settings["data"])
    assert schema is not None
    datatypes = {"sort": "BYTES", "price": "FP64", "count1": "INT64", "age": "FP32", "at": "INT64"}
    inputs = [
        {"name": name, "datatype": datatypes[name], "shape": [len(rows)], "data": [row[name] for row in rows]}
        for name in schema.columns
    ]
    version = type("Version", (), {"schema": schema})()
    batch = batch_of_tensors(read_request(json.dumps({"inputs": inputs}).encode()).tensors, version, RequestBounds())
    np.testing.assert_allclose(SparseModel.load("one/model").predict(batch), predicted, rtol=1e-6)


def test_criteos_layout_in_a_few_lines(here: Path, trains: Trains) -> None:
    del here
    rng = np.random.default_rng(2)
    lines = []
    for _ in range(400):
        numbers = ["" if rng.random() < 0.2 else str(int(rng.lognormal(3, 2)) - 2) for _ in range(13)]
        codes = ["" if rng.random() < 0.1 else f"{rng.integers(30):08x}" for _ in range(26)]
        lines.append("\t".join([str(rng.integers(2)), *numbers, *codes]))
    Path("train.txt").write_text("\n".join(lines) + "\n")
    names = ["label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))]
    Path("criteo.toml").write_text(
        f"[reader]\nformat = 'tsv'\nnames = {json.dumps(names)}\n[categorical]\n'C*' = 'text'\n"
        "[numeric]\n'I*' = { buckets = 'log' }\n"
    )
    assert "400 rows learned" in trains("train.txt", "--schema", "criteo.toml", "--model", "lr", "--out", "run")
    assert main(["sparse", "evaluate", "run", "train.txt", "--allow-learned"]) == 0


def test_what_a_proposal_says(rows: object, capsys: pytest.CaptureFixture[str], trains: Trains) -> None:
    del rows
    assert main(["sparse", "schema", "german.csv", *GERMAN[:-2]]) == 0
    printed = capsys.readouterr()
    assert "column 'price' has numbers with a decimal comma, such as '" in printed.err
    assert "and is read as text: --decimal ',' reads them" in printed.err
    assert main(["sparse", "schema", "german.csv", *GERMAN, "--out", "s.toml"]) == 0
    assert "decimal" not in capsys.readouterr().err
    text = Path("s.toml").read_text()
    assert text.startswith('label = "label"\ndecimal = ","\n')
    assert '[reader]\nseparator = ";"\nencoding = "latin1"\ncomment = "#"\n' in text
    tail = text.splitlines()[text.splitlines().index("[numeric]") + 2]
    assert tail.startswith("# long tail of numbers, ") and tail.endswith(" spreads: { log1p = true, standard = true }?")
    trains("german.csv", "--schema", "s.toml", "--model", "lr", "--out", "one")
    trains("german.csv", *GERMAN, "--model", "lr", "--out", "two")
    assert Path("one/model/parameters.arrow").read_bytes() == Path("two/model/parameters.arrow").read_bytes()
    price = next(line for line in text.splitlines() if line.startswith('"price"'))
    Path("s.toml").write_text(text.replace(price, price.replace("{", "{ log1p = true,")))
    capsys.readouterr()
    assert main(["sparse", "train", "german.csv", "--schema", "s.toml", "--model", "lr"]) == 0
    assert "numeric column 'price' has centre " in capsys.readouterr().err


@pytest.mark.parametrize(("in_file", "option"), [("false", "--header"), ("true", "--no-header")])
def test_an_option_that_differs_from_the_file_is_refused(in_file: str, option: str, here: Path, fails: Fails) -> None:
    """Also if the option says what is usual."""
    (here / "rows.csv").write_text("label,sort\n1,a\n0,b\n")
    Path("s.toml").write_text(f'[reader]\nheader = {in_file}\n[categorical]\nsort = "text"\n')
    message = fails("sparse", "train", "rows.csv", "--schema", "s.toml", option)
    assert message == "bitlane: error: --header: s.toml says otherwise; omit it, or change the file"


def test_the_file_of_a_schema_is_read_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bitlane.sparse.batches import schema_file

    opened, read = [], schema_file.read_declaration
    monkeypatch.setattr(schema_file, "read_declaration", lambda path: opened.append(path) or read(path))
    (here / "rows.csv").write_text("label,sort\n1,a\n0,b\n")
    Path("s.toml").write_text('[categorical]\nsort = "text"\n')
    assert main(["sparse", "train", "rows.csv", "--schema", "s.toml", "--model", "lr"]) == 0
    assert len(opened) == 1


def test_mistakes_are_one_line(rows: object, fails: Fails) -> None:
    del rows
    Path("s.toml").write_text('[reader]\nseparator = ";"\n[categorical]\nsort = "text"\n')
    Path("rows.libsvm").write_text("1 1:1\n")
    train = ["sparse", "train"]
    for arguments, message in (
        (["german.csv"], "is not UTF-8 text (byte 44): say what it is, such as --encoding latin1"),
        (["german.csv", "--encoding", "klingon"], "--encoding klingon is unknown: use a name such as latin1"),
        (
            ["german.csv", "--encoding", "ascii"],
            "german.csv is not ascii text: say its encoding, such as --encoding cp",
        ),
        (["german.csv", "--encoding", "base64"], "--encoding base64 is unknown"),
        (["english.csv", "--comment", ""], "use what begins a line, such as '#'"),
        (["english.csv", "--names", "label,sort,price,count1,age,at"], "its first row has the names of the columns"),
        (
            ["english.csv", "--schema", "s.toml", "--sep", ","],
            "--sep: s.toml says otherwise; omit it, or change the file",
        ),
        (["english.csv", "--schema", "s.toml", "--decimal", ","], "--decimal: say it in s.toml, the file of --schema"),
        (["rows.libsvm", "--decimal", ","], "--decimal: "),
        (["rows.libsvm", "--names", "a,b"], "rows.libsvm is no CSV file; omit it"),
        (["rows.libsvm", "--schema", "s.toml"], "--schema s.toml: "),
    ):
        error = fails(*train, *arguments)
        assert message in error and "\n" not in error, (arguments, error)


def test_a_schema_keeps_which_label_is_positive(rows: list[dict[str, object]], trains: Trains, fails: Fails) -> None:
    words = [{**row, "label": ("buys", "looks")[int(str(row["label"]))]} for row in rows]
    Path("words.jsonl").write_text("".join(json.dumps(row) + "\n" for row in words), encoding="utf-8")
    assert main(["sparse", "schema", "words.jsonl", "--positive", "looks", "--out", "words.toml"]) == 0
    assert 'positive = "looks"' in Path("words.toml").read_text()
    trains("words.jsonl", "--schema", "words.toml", "--out", "words")
    share = next(line["mean_label"] for line in read_log("words") if line["kind"] == "window")
    assert share == pytest.approx(np.mean([row["label"] == 1 for row in rows]))
    assert "--positive: words.toml says otherwise" in fails(
        "sparse", "train", "words.jsonl", "--schema", "words.toml", "--positive", "buys"
    )
