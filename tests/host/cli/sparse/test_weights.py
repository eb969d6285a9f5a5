"""`--weight` and `--negatives` of the command line, from files of every format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest

from bitlane.cli.main import main
from bitlane.sparse.batches.source import open_source
from bitlane.sparse.training.run_folder import read_settings

Fails = Callable[..., str]
FORMS = ("csv", "tsv", "jsonl", "parquet", "arrow")


def write(table: pa.Table, path: Path) -> Path:
    form = path.suffix[1:]
    if form == "parquet":
        parquet.write_table(table, path)
    elif form == "arrow":
        feather.write_feather(table, str(path), compression="uncompressed")
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        csv.write_csv(table, path, csv.WriteOptions(delimiter="\t" if form == "tsv" else ",", quoting_style="none"))
    return path


def table_of(seed: int, rows: int = 400, clicks: float = 0.3) -> pa.Table:
    rng = np.random.default_rng(seed)
    users = rng.integers(0, 20, rows)
    labels = (rng.random(rows) < np.where(users % 2, 1.6, 0.4) * clicks).astype(int)
    labels[:2] = 0, 1
    weights = rng.integers(1, 9, rows) / 2 * (rng.random(rows) < 0.9)
    weights[:2] = 1
    return pa.table({"label": labels, "user": [f"u{user}" for user in users], "w": weights})


def bits(run: Path) -> bytes:
    return b"".join((run / "model" / name).read_bytes() for name in ("parameters.arrow", "dense.npz"))


def test_every_format_carries_the_same_weights(here: Path, trains: Callable[..., str], seed: int) -> None:
    table = table_of(seed)
    models = set()
    for form in FORMS:
        trains(write(table, here / f"rows.{form}"), "--weight", "w", "--model", "lr", "--out", f"run-{form}")
        models.add(bits(here / f"run-{form}"))
    kept = np.flatnonzero(np.asarray(table["w"]))
    trains(write(table.take(kept), here / "kept.parquet"), "--weight", "w", "--model", "lr", "--out", "run-kept")
    assert models == {bits(here / "run-kept")}, "rows of weight 0 do not exist"
    schema = read_settings(here / "run-csv" / "model")["data"]["schema"]
    assert (schema["weight"], schema["categorical"], schema["numeric"]) == ("w", ["user"], [])


def test_metrics_and_predictions_of_a_model_with_weights(
    here: Path, trains: Callable[..., str], capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    table = table_of(seed)
    whole = table.set_column(2, "w", pa.array(np.ceil(np.asarray(table["w"]))))
    copies = whole.take(np.repeat(np.arange(400), np.asarray(whole["w"]).astype(int)))
    trains(write(table, here / "rows.csv"), "--weight", "w", "--model", "lr", "--out", "run")
    shown = []
    for name, each in (("whole", whole), ("copies", copies.set_column(2, "w", pa.array(np.ones(len(copies)))))):
        assert main(["sparse", "evaluate", "run", str(write(each, here / f"{name}.csv")), "--allow-learned"]) == 0
        shown.append(capsys.readouterr().out.splitlines()[2].split()[2:])
    assert shown[0] == shown[1]
    bare = write(table.drop_columns(["w", "label"]), here / "bare.csv")
    assert main(["sparse", "predict", "run", str(bare), "--out", "scores.csv"]) == 0
    assert len((here / "scores.csv").read_text().splitlines()) == 401, "also rows of weight 0"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("cell", "told"), [(-1.0, "is -1"), (float("inf"), "inf"), (None, "is empty"), (1e39, "is inf")]
)
def test_bad_weights_name_the_row(here: Path, fails: Fails, form: str, cell: float | None, told: str) -> None:
    if form == "jsonl" and cell == float("inf"):
        pytest.skip("JSON has no such number")
    weights = [1.0] * 9
    weights[4] = cell  # type: ignore[call-overload]
    table = pa.table({"label": [0, 1] * 4 + [1], "user": ["a"] * 9, "w": pa.array(weights, pa.float64())})
    error = fails("sparse", "train", str(write(table, here / f"rows.{form}")), "--weight", "w")
    assert re.search(rf"rows.{form}, row 5: weight column 'w' (has|is)", error) and (
        told in error or "is 1e+39" in error
    )


def test_what_has_no_weights_says_so(here: Path, pairs: Path, fails: Fails) -> None:
    error = fails("sparse", "train", str(pairs), "--weight", "w")
    assert "clicks.ffm: libffm has no weights of rows: omit --weight, or use CSV or Parquet" in error
    path = str(write(table_of(1), here / "rows.csv"))
    assert "there is no weight column 'v'" in fails("sparse", "train", path, "--weight", "v")
    assert "column 'w' is used twice" in fails("sparse", "train", path, "--weight", "w", "--numeric", "w")
    nothing = table_of(1).set_column(2, "w", pa.array(np.zeros(400)))
    error = fails("sparse", "train", str(write(nothing, here / "nothing.csv")), "--weight", "w")
    assert "there are no rows to learn: all weights are 0" in error


def test_arrays_have_weights_by_name(here: Path, trains: Callable[..., str], fails: Fails) -> None:
    labels = np.array([0, 1, 0, 1])
    arrays: dict[str, Any] = {"keys": np.arange(4), "offsets": np.arange(5), "labels": labels}
    np.savez(here / "rows.npz", **arrays, w=[1, 0, 2, 3])
    found = next(open_source(here / "rows.npz", weight="w", thinned=True).batches(0))
    assert found.weights.tolist() == [1, 2, 3] and found.keys.tolist() == [0, 2, 3]
    trains("rows.npz", "--weight", "w", "--model", "lr")
    assert "there is no array 'v' of weights; there are keys, labels, offsets, w" in fails(
        "sparse", "train", "rows.npz", "--weight", "v"
    )
    np.savez(here / "short.npz", **arrays, w=[1, 2, 3])
    assert "array 'w' must be 4 numbers" in fails("sparse", "train", "short.npz", "--weight", "w")
    np.savez(here / "below.npz", **arrays, w=[1, 2, -3, 1])
    assert "row 3: weight 'w' is -3: a weight is finite and at least 0" in fails(
        "sparse", "train", "below.npz", "--weight", "w"
    )


def test_a_column_that_may_have_weights_is_told_and_declared(
    here: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    table = table_of(seed).rename_columns(["label", "user", "sample_weight"])
    path = write(table, here / "rows.csv")
    assert main(["sparse", "train", str(path), "--model", "lr"]) == 0
    told = capsys.readouterr().err
    assert "column 'sample_weight' is a feature; if it says how many rows a row counts as, use --weight" in told
    assert main(["sparse", "train", str(path), "--model", "lr", "--numeric", "sample_weight"]) == 0
    assert "is a feature; if" not in capsys.readouterr().err
    assert main(["sparse", "schema", str(path), "--weight", "sample_weight", "--out", "schema.toml"]) == 0
    assert 'weight = "sample_weight"' in (here / "schema.toml").read_text()
    for name, options in (("one", ["--weight", "sample_weight"]), ("two", ["--schema", "schema.toml"])):
        assert main(["sparse", "train", str(path), "--model", "lr", *options, "--out", name]) == 0
    assert bits(here / "one") == bits(here / "two")


def test_negatives_are_kept_told_and_remembered(
    here: Path, trains: Callable[..., str], capsys: pytest.CaptureFixture[str], fails: Fails, seed: int
) -> None:
    table = table_of(seed, 4000, 0.05)
    path = str(write(table, here / "rows.parquet"))
    shown = trains(
        path, "--weight", "w", "--negatives", "0.25", "--model", "lr", "--test-fraction", "0.2", "--out", "run"
    )
    kept, read = (
        int(each.replace(",", "")) for each in re.search(r"([\d,]+) negatives of ([\d,]+) kept", shown).groups()
    )
    assert "kept, each weighing 4" in shown and abs(kept / read - 0.25) < 0.08 and read < 4000
    assert read_settings(here / "run" / "model")["data"]["negatives"] == 0.25
    trains(
        path,
        "--weight",
        "w",
        "--negatives",
        "0.25",
        "--model",
        "lr",
        "--test-fraction",
        "0.2",
        "--epochs",
        "2",
        "--out",
        "two",
    )
    assert f"{kept:,} negatives of {read:,} kept" in trains("--resume", "run", "--epochs", "2"), "each row counts once"
    assert bits(here / "run") == bits(here / "two")
    assert main(["sparse", "inspect", "run", "--top", "0"]) == 0
    assert "negatives kept        0.25 of them, each weighing 4" in capsys.readouterr().out
    other = trains(path, "--negatives", "0.25", "--model", "lr", "--seed", "1")
    assert f"{kept:,} negatives of" not in other
    assert "--negatives 0.1: a regression has no negatives; omit it" in fails(
        "sparse", "train", path, "--negatives", "0.1", "--loss", "squared_error"
    )
    for wrong in ("0", "1", "-1", "nan"):
        assert "the share of the rows with label 0 that is kept is between 0 and 1" in fails(
            "sparse", "train", path, f"--negatives={wrong}"
        )
