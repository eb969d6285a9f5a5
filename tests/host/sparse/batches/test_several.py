"""Cells with several values: against plain Python, in every container, requests and data frames; errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from tests.helpers.sparse_text import rows_of

from bitlane.errors import DataError
from bitlane.sparse.batches.checks import RowLocation
from bitlane.sparse.batches.schema import ListSchema, Schema, schema_from_json
from bitlane.sparse.batches.source import open_source

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, parquet  # noqa: E402

from bitlane.sparse.batches.columns import batch_of_columns, default_schema  # noqa: E402

Cell = Sequence[str | int | None] | None
LOCATION = RowLocation("day.parquet", 1001)


def key(column: str, value: object) -> int:
    return xxhash.xxh64_intdigest(f"{column}={'' if value is None else value}".encode())


def features_of(cell: Cell, column: str, field: int, pooling: str) -> list[tuple[int, int, float]]:
    """Plain Python: a feature for each entry that is there, else one for the missing cell."""
    there = [entry for entry in cell or [] if entry not in (None, "")]
    weight = 1.0 if pooling == "sum" or not there else float(np.float32(1 / len(there)))
    return [(field, key(column, entry), weight) for entry in there or [None]]


def random_cells(rng: np.random.Generator, rows: int, integers: bool, nulls: bool = True) -> list[Cell]:
    def entry() -> str | int | None:
        if integers:
            return int(rng.integers(-5, 300))
        return str(rng.choice(["a", "b", "köln", "x y", "007", "1.50", "a" * 50]))

    cells: list[Cell] = []
    for _ in range(rows):
        cell = [None if nulls and rng.random() < 0.1 else entry() for _ in range(rng.integers(0, 5))]
        cells.append(None if nulls and rng.random() < 0.1 else cell)
    return cells


@pytest.mark.parametrize("pooling", ["mean", "sum"])
@pytest.mark.parametrize("integers", [True, False])
def test_lists_beside_other_columns(integers: bool, pooling: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = 100
    tags, words = random_cells(rng, rows, integers), random_cells(rng, rows, False)
    user = [None if rng.random() < 0.1 else f"u{rng.integers(9)}" for _ in range(rows)]
    price = [None if rng.random() < 0.2 else float(rng.normal()) for _ in range(rows)]
    kinds = [pa.list_, pa.large_list]
    entry = pa.int32() if integers else pa.string()
    table = pa.RecordBatch.from_pydict(
        {
            "words": pa.array(words, kinds[rng.integers(2)](pa.large_string())),
            "label": pa.array(rng.integers(0, 2, rows)),
            "price": pa.array(price, pa.float64()),
            "tags": pa.array(tags, kinds[rng.integers(2)](entry)),
            "user": pa.array(user),
        }
    )
    several = (("tags", pooling), ("words", "mean"))
    schema = Schema(categorical=("user",), numeric=("price",), crosses=(("user", "label2"),), several=several)
    schema = schema.with_types({"tags": "number" if integers else "text"})
    table = table.append_column("label2", table.column("label"))
    found = batch_of_columns(table, schema, location=LOCATION)
    crossed = batch_of_columns(table, Schema(crosses=(("user", "label2"),)), location=LOCATION).keys.tolist()
    wanted = []
    for row in range(rows):
        features = [(0, key("user", user[row]), 1.0)]
        if price[row] is not None:
            features.append((1, xxhash.xxh64_intdigest(b"price"), float(np.float32(price[row]))))
        features += features_of(tags[row], "tags", 2, pooling) + features_of(words[row], "words", 3, "mean")
        features.append((4, crossed[row], 1.0))
        wanted.append((float(table.column("label")[row].as_py()), features))
    assert rows_of(found) == wanted
    assert rows_of(batch_of_columns(table.slice(7, 20), schema, location=LOCATION)) == wanted[7:27]


def text_of(cell: Cell, separator: str) -> str:
    return separator.join("" if entry is None else str(entry) for entry in cell or [])


def write(folder: Path, cells: list[Cell], labels: list[int], integers: bool) -> list[Path]:
    """The same rows as lists and as texts with a separator."""
    lists = pa.table({"label": labels, "tags": pa.array(cells, pa.list_(pa.int64() if integers else pa.string()))})
    texts = pa.table({"label": labels, "tags": [text_of(cell, "|") for cell in cells]})
    for name, table in (("lists", lists), ("texts", texts)):
        parquet.write_table(table, folder / f"{name}.parquet")
        feather.write_feather(table, folder / f"{name}.arrow")
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    for suffix, between in (("csv", ","), ("tsv", "\t")):
        lines = [between.join((str(row["label"]), row["tags"])) for row in texts.to_pylist()]
        (folder / f"texts.{suffix}").write_text("\n".join([between.join(("label", "tags")), *lines]) + "\n")
    return sorted(folder.iterdir())


@pytest.mark.parametrize("integers", [True, False])
def test_every_container_gives_the_same_features(integers: bool, tmp_path: Path, seed: int) -> None:
    pytest.importorskip("pandas")
    from bitlane.sparse.estimators.encoding import RowEncoder
    from bitlane.sparse.serving.protocol import batch_of_tensors, read_request
    from bitlane.sparse.serving.requests import RequestBounds

    rng = np.random.default_rng(seed)
    cells = [[1] if integers else ["a"], *random_cells(rng, 40, integers)]
    labels = rng.integers(0, 2, len(cells)).tolist()
    wanted = [(float(y), features_of(cell, "tags", 0, "mean")) for y, cell in zip(labels, cells, strict=True)]
    paths = write(tmp_path, cells, labels, integers)
    trained = open_source(paths[rng.integers(len(paths))], schema=Schema(several=(("tags", "mean"),))).schema
    assert isinstance(trained, Schema)
    for path in paths:
        found = open_source(path, schema=trained, block_bytes=300).batches(0)
        assert [row for batch in found for row in rows_of(batch)] == wanted, (path.name, trained.types)
    texts = [text_of(cell, "|") for cell in cells]
    body = {"inputs": [{"name": "tags", "datatype": "BYTES", "shape": [len(cells)], "data": texts}]}
    tensors = read_request(json.dumps(body).encode()).tensors
    version: Any = type("Version", (), {"schema": trained})
    found = batch_of_tensors(tensors, version, RequestBounds())
    assert [features for _, features in rows_of(found)] == [features for _, features in wanted]
    with pytest.raises(DataError, match="features; this service accepts at most"):
        batch_of_tensors(tensors, version, RequestBounds(features=len(cells)))
    frame = parquet.read_table(tmp_path / "lists.parquet").to_pandas()[["tags"]]
    encoder = RowEncoder("table", 1, 1, None, trained, np.array(["tags"], object))
    assert encoder.encode(frame, "test").keys.tolist() == found.keys.tolist()


def test_the_default_schema_takes_lists_of_texts_and_integers() -> None:
    columns = pa.schema(
        {
            "label": pa.int8(),
            "tags": pa.list_(pa.string()),
            "user": pa.string(),
            "ids": pa.large_list(pa.int32()),
            "pair": pa.list_(pa.int64(), 2),
            "codes": pa.list_(pa.dictionary(pa.int8(), pa.string())),
            "days": pa.list_(pa.date32()),
        }
    )
    names = ("tags", "ids", "pair", "codes", "days")
    kinds = {"user": "text", "tags": "text", "ids": "number", "pair": "number", "codes": "text", "days": "time"}
    found = default_schema(columns, "f")
    assert found == Schema(categorical=("user",), several=tuple((name, "mean") for name in names)).with_types(kinds)
    assert dict(found.types) == kinds
    assert default_schema(columns, "f", ignore=("user", *names[1:])).columns == ("tags",)
    for kind in (pa.float32(), pa.binary(), pa.list_(pa.string()), pa.struct({"a": pa.int8()})):
        with pytest.raises(DataError, match=r"^f: column 'x' is list<.*>, which is no feature: leave it out"):
            default_schema(columns.append(pa.field("x", pa.list_(kind))), "f")
    texts = pa.schema({"label": pa.int8(), "keys": pa.list_(pa.string())})
    assert default_schema(texts, "f").several == (("keys", "mean"),)
    assert isinstance(default_schema(pa.schema({"label": pa.int8(), "keys": pa.list_(pa.int64())}), "f"), ListSchema)


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), [[1, 2], []]),
        (pa.array([["a", "b"], []]).cast(pa.list_(pa.dictionary(pa.int8(), pa.string()))), [["a", "b"], []]),
        (pa.array(["a;b", "", None, ";"]), [["a", "b"], [], [], []]),
        (pa.array(["a;b", "c", None]).dictionary_encode(), [["a", "b"], ["c"], []]),
        (pa.array([b"a;b", None]), [["a", "b"], []]),
        (pa.array([7, None]), [[7], []]),
        (pa.array([None, None], pa.null()), [[], []]),
        (pa.array([True]), [["true"]]),
        (pa.array([["", None, "a"]]), [["a"]]),
        (pa.array(["a;a"]), [["a", "a"]]),
    ],
)
def test_cells_of_every_type(cells: Any, wanted: list[Cell]) -> None:
    schema = Schema(several=(("tags", "sum"),), several_separator=";")
    rows = pa.RecordBatch.from_pydict({"label": [0] * len(cells), "tags": cells})
    found = [features for _, features in rows_of(batch_of_columns(rows, schema, location=LOCATION))]
    assert found == [features_of(cell, "tags", 0, "sum") for cell in wanted]
    empty = batch_of_columns(rows.slice(0, 0), schema, location=LOCATION)
    assert (empty.rows, empty.nnz) == (0, 0)


def test_json_lists_that_begin_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    cells: list[list[str]] = [[]] * 40 + [["2020-01-01"]] * 2 + [["soon"]]
    path.write_text("".join(json.dumps({"label": 1, "item": "x", "tags": cell}) + "\n" for cell in cells))
    schema = Schema(several=(("tags", "mean"),), types=(("tags", "text"),))
    found = [row for batch in open_source(path, schema=schema, block_bytes=100).batches(0) for row in rows_of(batch)]
    assert [features for _, features in found] == [features_of(cell, "tags", 0, "mean") for cell in cells]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"several": (("a", "max"),)}, "column 'a' of several values has the pooling 'max': choose mean or sum"),
        ({"several": (("a", "sum"),), "several_separator": ""}, "several_separator='': use a character, such as '|'"),
        ({"several": (("a", "sum"), ("a", "mean"))}, "column 'a' is used twice in the schema"),
        ({"several": (("a", "sum"),), "categorical": ("a",)}, "column 'a' is used twice in the schema"),
        (
            {"several": (("a", "sum"),), "crosses": (("b", "a"),)},
            "cross 'b x a' has column 'a', which has several values in a cell",
        ),
        ({"several": (("a", "sum"),), "categorical": ("a=b",)}, "columns 'a' and 'a=b' would share keys"),
    ],
)
def test_bad_schemas(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as error:
        Schema(**settings)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


def test_bad_cells() -> None:
    rows = pa.RecordBatch.from_pydict({"label": [0], "tags": pa.array([[{"a": 1}]])})
    with pytest.raises(DataError, match=r"^day.parquet: column 'tags' is list<.*>, whose entries are no features$"):
        batch_of_columns(rows, Schema(several=(("tags", "sum"),)), location=LOCATION)


def test_the_schema_is_kept_and_old_ones_stay() -> None:
    schema = Schema(several=(("tags", "sum"),), several_separator=";").with_types({"tags": "number"})
    assert schema_from_json(json.loads(json.dumps(schema.as_json()))) == schema
    assert "several" not in Schema().as_json() and "several_separator" not in Schema().as_json()
    assert schema.field_names == schema.columns == schema.typed == ("tags",)
    assert schema.lacks_types is False and schema.hashed == ()


def test_messages_of_kafka() -> None:
    from bitlane.sparse.batches.kafka import _texts

    assert _texts(["a", 1, True, None, 2.0], "|") == ["a", "1", "true", None, "2"]
    assert _texts("a|b", "|") == ["a", "b"] and _texts(None, "|") == [] and _texts(7, "|") == ["7"]
    with pytest.raises(ValueError, match="a cell is dict"):
        _texts([{}], "|")
