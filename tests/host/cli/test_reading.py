"""Files as people have them, for `train` and `sparse train` alike: read the same, or refused in one line that helps."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bitlane.cli.main import main
from bitlane.reporting import records

for module in ("pandas", "sklearn", "matplotlib", "numba", "pyarrow", "xxhash"):
    pytest.importorskip(module)

COMMANDS = {
    "train": ["train", "--target", "click", "--device", "emulator", "--epochs", "2"],
    "sparse": ["sparse", "train", "--target", "click", "--model", "lr"],
}
NAMES = ["click", "age", "price"]
Rows = list[list[str]]


@pytest.fixture
def rows(seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    return [[str(k % 2), str(rng.integers(9)), f"{rng.normal():.3f}"] for k in range(60)]


def text(rows: Rows, separator: str = ",", names: list[str] | None = NAMES) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=separator, lineterminator="\n").writerows([names, *rows] if names else rows)
    return out.getvalue()


def learned(command: str, file: str, *options: str) -> object:
    """Train, and return what was learned: coefficients, or the predictions of a sparse model for plain rows."""
    run = f"{command}-{len(list(Path().iterdir()))}"
    with_target = [each for each in COMMANDS[command] if not ("--target" in options and each in ("--target", "click"))]
    assert main([*with_target, *options, "--out", run, "--", file]) == 0
    if command == "train":
        arrays = records.read_record(run).arrays
        return arrays["coef"].tolist(), arrays["intercept"].tolist()
    assert main(["sparse", "predict", run, file, "--out", f"{run}.csv"]) == 0
    return Path(f"{run}.csv").read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_same_rows_in_other_files_are_the_same(command: str, rows: Rows, here: Path) -> None:
    Path("plain.csv").write_text(text(rows))
    plain = learned(command, "plain.csv")
    Path("semicolons.csv").write_text(text(rows, ";"))
    assert learned(command, "semicolons.csv", "--sep", ";") == plain
    Path("tabs.csv").write_text(text(rows, "\t"))
    assert learned(command, "tabs.csv", "--sep", "tab") == learned(command, "tabs.csv", "--sep", "\\t") == plain
    indexed = [[str(k), *row] for k, row in enumerate(rows)]
    for name in ("", "Unnamed: 0"):
        Path("indexed.csv").write_text(text(indexed, names=[name, *NAMES]))
        assert learned(command, "indexed.csv", "--ignore", "Unnamed: 0") == plain
    Path("more.csv").write_text(text([[*row, "x"] for row in rows], names=[*NAMES, "städte"]))
    assert learned(command, "more.csv", "--ignore", "städte") == plain
    objects = "".join(
        json.dumps({"click": int(click), "more": [1], "age": int(age), "price": float(price)}) + "\n"
        for click, age, price in rows
    )
    if command == "train":
        objects = objects.replace('"more": [1], ', "")
    for name, packed in (("r.jsonl", objects.encode()), ("r.ndjson.gz", gzip.compress(objects.encode()))):
        Path(name).write_bytes(packed)
        ignore = ["--ignore", "more"] if command == "sparse" else []
        assert learned(command, name, *ignore) == plain
    Path("plain.csv.bz2").write_bytes(bz2.compress(text(rows).encode()))
    assert learned(command, "plain.csv.bz2") == plain


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("target", ["0", "-3", "x0"])
def test_without_a_header_columns_have_numbers(command: str, target: str, rows: Rows, here: Path) -> None:
    Path("plain.csv").write_text(text(rows, names=["x0", "x1", "x2"]))
    plain = learned(command, "plain.csv", "--target", "x0")
    Path("bare.csv").write_text(text(rows, names=None))
    assert learned(command, "bare.csv", "--no-header", f"--target={target}") is not None
    Path("wide.csv").write_text(text([[*row, "7"] for row in rows], names=None))
    if command == "train":
        assert learned(command, "bare.csv", "--no-header", f"--target={target}") == plain
        found = learned(command, "wide.csv", "--no-header", "--target", "x0", "--ignore", "3")
        assert found == plain


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("content", "options", "part"),
    [
        ("click;age\n1;2\n0;3\n", [], "has one column with the separator ',', 2 with ';': use --sep ';'"),
        ("click\tage\n1\t2\n0\t3\n", [], "2 with 'tab': use --sep 'tab'"),
        ("click,age\n1,2\n0,3\n", ["--sep", ";"], "has one column with the separator ';', 2 with ',': use --sep ','"),
        (",click,age\n0,1,2\n1,0,3\n", [], "column 1 has no name; pandas writes row numbers so: use --ignore 'Unn"),
        ("Unnamed: 0,click,age\n0,1,2\n1,0,3\n", [], "use --ignore 'Unnamed: 0'"),
        (
            "click,,age\n0,1,2\n1,0,3\n",
            [],
            "column 2 has no name; pandas writes row numbers so: use --ignore 'Unnamed: 1'",
        ),
        ("click,größe\n1,2\n0,3\n", [], "is not UTF-8 text (byte 8): "),
        ("click,age,town\n1,2,Köln\n0,3,a\n", ["--ignore", "town"], "is not UTF-8 text (byte 20)"),
        ("click\n1\n0\n", [], "the "),
        ("click,age\n1,2\n0,3\n", ["--ignore", "age"], "the "),
        ("click,age\n1,2\n0,3\n", ["--ignore", "agee"], "has no column 'agee'; did you mean"),
        ("click,age\n1,2\n0,3\n", ["--sep", ";;"], "argument --sep: separator ';;': use one character"),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    command: str, content: str, options: list[str], part: str, here: Path, fails: Callable[..., str]
) -> None:
    Path("t.csv").write_bytes(content.encode("latin-1"))
    message = fails(*COMMANDS[command], "t.csv", *options, "--out", "run")
    assert part in message
    if part == "the ":  # only the target is left
        assert "no column" in message and "'click'" in message


@pytest.mark.parametrize("command", COMMANDS)
def test_latin_1_far_inside_a_file_is_told(command: str, here: Path, fails: Callable[..., str]) -> None:
    lines = "".join(f"{k % 2},{k},town\n" for k in range(20_000))
    Path("t.csv").write_bytes(f"click,age,town\n{lines}1,2,Köln\n".encode("latin-1"))
    options = ["--ignore", "age"] if command == "sparse" else []
    assert "t.csv is not UTF-8 text" in fails(*COMMANDS[command], "t.csv", *options)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("options", [["--sep", ";"], ["--no-header"]])
def test_options_of_csv_are_refused_elsewhere(
    command: str, options: list[str], here: Path, fails: Callable[..., str]
) -> None:
    Path("t.jsonl").write_text('{"click": 1, "age": 2}\n{"click": 0, "age": 3}\n')
    assert "is no " in (message := fails(*COMMANDS[command], "t.jsonl", *options)) and "omit" in message


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("lines", "part"),
    [
        ('{"click": 1, "age": 2}\n{"click": 0\n', "JSON object"),
        ("[1, 2]\n[3, 4]\n", "JSON object"),
        ('{"click": 1, "age": 2}\n{"click": 0, "age": "old"}\n', "age"),
    ],
)
def test_bad_json_lines(command: str, lines: str, part: str, here: Path, fails: Callable[..., str]) -> None:
    Path("t.jsonl").write_text(lines)
    message = fails(*COMMANDS[command], "t.jsonl")
    assert part in message and "t.jsonl" in message


def test_another_layout_for_a_trained_model(rows: Rows, here: Path) -> None:
    Path("plain.csv").write_text(text(rows))
    Path("semicolons.csv").write_text(text(rows, ";"))
    Path("bare.csv").write_text(text([[age, price] for _, age, price in rows], names=None))
    assert main([*COMMANDS["train"], "semicolons.csv", "--sep", ";", "--out", "dense"]) == 0
    assert main([*COMMANDS["sparse"], "semicolons.csv", "--sep", ";", "--out", "sparse"]) == 0
    for command, run in ((["predict"], "dense"), (["sparse", "predict"], "sparse")):
        assert main([*command, run, "semicolons.csv", "--out", "a.csv"]) == 0
        assert main([*command, run, "plain.csv", "--sep", ",", "--out", "b.csv"]) == 0
        assert Path("a.csv").read_text() == Path("b.csv").read_text()
    assert main(["predict", "dense", "bare.csv", "--sep", ",", "--no-header", "--out", "c.csv"]) == 0
    assert main(["predict", "dense", "plain.csv", "--sep", ",", "--out", "b.csv"]) == 0
    assert Path("c.csv").read_text() == Path("b.csv").read_text()


def test_the_old_spelling_of_the_target_works_and_is_told(
    rows: Rows, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plain.csv").write_text(text(rows))
    new = learned("sparse", "plain.csv")
    capsys.readouterr()
    assert main(["sparse", "train", "plain.csv", "--model", "lr", "--label", "click", "--out", "old"]) == 0
    note, *_ = capsys.readouterr().err.splitlines()
    assert note == "bitlane: note: --label is an old spelling, which ends in version 0.2: use --target"
    assert main(["sparse", "predict", "old", "plain.csv", "--out", "old.csv"]) == 0
    assert Path("old.csv").read_text() == new
