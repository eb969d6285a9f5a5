"""Columns that cannot be features: named in one line, and left out, in every container."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.schema import ListSchema, Schema
from bitlane.sparse.batches.source import open_source

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, parquet  # noqa: E402

UNUSABLE = {
    "structures": pa.array([{"a": 1}, {"a": 2}]),
    "lists": pa.array([[{"a": 1}], []]),
    "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
    "deep": pa.array([[[1]], [[2]]]),
    "wait": pa.array([1, 2], pa.duration("s")),
}
PLAIN = {"label": pa.array([0, 1]), "item": pa.array(["a", "b"])}


def write(path: Path, columns: dict[str, Any]) -> Path:
    table = pa.table(columns)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        {".parquet": parquet.write_table, ".arrow": feather.write_feather}[path.suffix](table, path)
    return path


def failure(path: Path, **settings: Any) -> str:
    with pytest.raises(DataError) as error:
        open_source(path, **settings)
    message = str(error.value)
    assert message.startswith(f"{path}") and "\n" not in message
    return message.removeprefix(f"{path}")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".jsonl"])
def test_unusable_columns_are_named_and_left_out(suffix: str, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    possible = list(UNUSABLE) if suffix != ".jsonl" else ["structures", "lists", "deep"]
    if suffix == ".arrow":
        possible.remove("map")
    names = rng.choice(possible, rng.integers(1, len(possible) + 1), replace=False).tolist()
    order = rng.permutation([*names, *PLAIN]).tolist()
    path = write(tmp_path / f"a{suffix}", {name: {**UNUSABLE, **PLAIN}[name] for name in order})
    names.sort(key=order.index)
    message = failure(path)
    them = "it" if len(names) == 1 else "them"
    assert message.startswith(f": column {names[0]!r} is ")
    assert message.endswith(f", which is no feature: leave {them} out, --ignore {','.join(names)}")
    if len(names) > 1:
        assert failure(path, ignore=tuple(names[1:])).endswith(f"leave it out, --ignore {names[0]}")
    source = open_source(path, ignore=tuple(names))
    assert isinstance(source.schema, Schema) and source.schema.columns == ("item",)
    assert next(source.batches(0)).rows == 2


def test_a_long_type_is_shortened(tmp_path: Path) -> None:
    wide = pa.array([{f"a long name {number}": 1 for number in range(20)}] * 2)
    path = write(tmp_path / "a.parquet", {**PLAIN, "wide": wide})
    assert failure(path) == (
        ": column 'wide' is struct<a long name 0: int64, a long name 1: int64, a long..., which is no feature: "
        "leave it out, --ignore wide"
    )


def test_json_columns_of_several_types(tmp_path: Path) -> None:
    rows = [{"label": row % 2, "item": "ab"[row % 2], "mixed": "a" if row % 3 else 1} for row in range(9)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert failure(path).endswith("write the same type in all rows, or leave it out, --ignore mixed")
    source = open_source(path, ignore=("mixed",))
    wanted = next(open_source(path, schema=source.schema).batches(0))
    assert next(source.batches(0)).keys.tolist() == wanted.keys.tolist()
    assert wanted.labels.tolist() == [row["label"] for row in rows]
    path.write_text("[1, 2]\n")
    assert "not a JSON object in each line" in failure(path, ignore=("mixed",))
    path.write_text('{"label": 1, "item": "a"\n')
    assert "not a JSON object in each line" in failure(path, ignore=("mixed",))


def test_columns_of_equal_names(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("label,a,b,a\n1,2,3,4\n")
    assert failure(path) == ": column 'a' appears twice: rename one of them, or use --ignore a"
    assert open_source(path, ignore=("a",)).schema == Schema(categorical=("b",), types=(("b", "number"),))


def test_lists_of_keys_can_be_left_out(tmp_path: Path) -> None:
    lists = {"keys": pa.array([[1], [2]]), "values": pa.array([[1.0], [2.0]])}
    path = write(tmp_path / "a.parquet", {**PLAIN, **lists})
    assert open_source(path).schema == ListSchema(values="values")
    assert open_source(path, ignore=("values",)).schema == ListSchema()
    assert failure(path, ignore=("prize",)).startswith(" has no column 'prize'; there are ")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".jsonl", ".csv"])
def test_a_label_alone_is_refused(suffix: str, tmp_path: Path) -> None:
    if suffix == ".csv":
        path = tmp_path / "a.csv"
        path.write_text("label\n1\n0\n")
    else:
        path = write(tmp_path / f"a{suffix}", {"label": PLAIN["label"]})
    assert failure(path) == " has no column to learn from, except the label 'label'"
