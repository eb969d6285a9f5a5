"""Numbers with commas: told, or read as the same numbers as those with points."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numba")

from tests.helpers.sparse_text import rows_of

from bitlane.errors import DataError
from bitlane.sparse.batches.schema import Schema, schema_from_json
from bitlane.sparse.batches.source import open_source


def rows(path: Path, schema: Schema | None = None, **options: Any) -> list[Any]:
    source = open_source(path, schema=schema, task="regression", **options)
    return [row for batch in source.batches(0) for row in rows_of(batch)]


def test_commas_are_read_as_points(tmp_path: Path, seed: int) -> None:
    """In labels, numeric columns, buckets, categories of the type number and values of several."""
    rng = np.random.default_rng(seed)
    names = ("label", "n", "b", "c", "s")
    schema = Schema(
        categorical=("c", "b"),
        numeric=("n",),
        several=(("s", "mean"),),
        transforms=(("b", "buckets", (0.5, 10.0)),),
        types=tuple((name, "number") for name in ("c", "b", "s")),
    )
    assert schema_from_json(Schema(decimal=",").as_json()).decimal == "," and "decimal" not in schema.as_json()

    def number() -> str:
        return str(rng.choice(["", "0.25", "-1.50", "7", "1e3", "2.5e-1", "+3.0", str(round(float(rng.normal()), 6))]))

    cells = [[number() or "1" if name == "label" else number() for name in names] for _ in range(40)]
    for row in cells:
        row[-1] = "|".join(number() for _ in range(rng.integers(0, 4)))
    with_commas = [[cell.replace(".", ",") for cell in row] for row in cells]
    for name, table in (("points", cells), ("commas", with_commas)):
        lines = [dict(zip(names, row, strict=True)) for row in table]
        (tmp_path / f"{name}.csv").write_text("\n".join(";".join(row) for row in [[*names], *table]) + "\n")
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    wanted = rows(tmp_path / "points.csv", schema, separator=";")
    commas = Schema(**{**vars(schema), "decimal": ","})
    assert rows(tmp_path / "commas.csv", commas, separator=";") == wanted
    assert rows(tmp_path / "commas.jsonl", commas) == rows(tmp_path / "points.jsonl", schema) == wanted


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_column_of_numbers_with_commas_is_told(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"

    def found(cells: list[str], **options: Any) -> tuple[Any, list[str]]:
        lines = [{"label": "1", "price": cell, "c": "x"} for cell in cells]
        if suffix == "csv":
            path.write_text("label;price;c\n" + "".join(f"{';'.join(line.values())}\n" for line in lines))
        else:
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            separator = ";" if suffix == "csv" else None
            source = open_source(path, separator=separator, **options)
        return source.schema, [str(each.message).partition(": ")[2] for each in caught]

    schema, told = found(["1,5", "", "2", "NA", "-0,25"])
    assert schema.categorical == ("price", "c")
    assert told == [
        "column 'price' has numbers with a decimal comma, such as '1,5', and is read as text: --decimal ',' reads them"
    ]
    schema, told = found(["1,200.5", "3"])
    assert told == [
        "column 'price' has numbers with commas between digits, such as '1,200.5', and is read as text: write them "
        "without, to be read as numbers"
    ]
    assert found(["1,5", "x"])[1] == found(["1,5"], ignore=("price",))[1] == found(["a,b"])[1] == []
    assert found(["1,5"], schema=Schema(categorical=("price",)))[1] == []
    schema, told = found(["1,5", "2"], decimal=",")
    assert schema.numeric == ("price",) and schema.decimal == "," and told == []


def test_points_are_no_numbers_where_commas_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,n\n1,1.500\n")
    with pytest.raises(DataError, match=r"row 1: label column 'label' has '1.0', which is not a finite number w"):
        (tmp_path / "b.csv").write_text("label;n\n1.0;1\n")
        rows(tmp_path / "b.csv", Schema(numeric=("n",), decimal=","), separator=";")
    with pytest.raises(DataError, match=r"row 1: numeric column 'n' has '1.500', which is not a finite number w"):
        rows(tmp_path / "a.csv", Schema(numeric=("n",), decimal=","))
    with pytest.raises(DataError, match=r"decimal=';': choose '.' or ','"):
        open_source(tmp_path / "a.csv", decimal=";")
