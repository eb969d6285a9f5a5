"""Record batches to rows: against a loop over pandas or plain Python values."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pytest
import xxhash
from tests.helpers.sparse_text import rows_of

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.checks import RowLocation
from bitlane.sparse.batches.hashing import cross_keys
from bitlane.sparse.batches.schema import ListSchema, Schema

pa = pytest.importorskip("pyarrow")

from bitlane.sparse.batches.columns import batch_of_columns, default_schema  # noqa: E402

LOCATION = RowLocation("day.parquet", 1001)


def key(column: str, cell: object) -> int:
    return xxhash.xxh64_intdigest(f"{column}={'' if cell is None else cell}".encode())


def read(columns: dict[str, Any], schema: Schema, **settings: Any) -> Batch:
    rows = pa.RecordBatch.from_pydict({"label": pa.array([0] * len(next(iter(columns.values())))), **columns})
    return batch_of_columns(rows, schema, location=LOCATION, **settings)


def keys_read(cells: Any) -> list[int]:
    return read({"c": cells}, Schema(categorical=("c",))).keys.tolist()


def test_categorical_numeric_and_crossed_columns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = 200
    user = [None if rng.random() < 0.1 else f"u{rng.integers(50)}" for _ in range(rows)]
    item = rng.integers(-5, 5, rows).tolist()
    price = [None if rng.random() < 0.2 else float(rng.normal()) for _ in range(rows)]
    hour = rng.integers(0, 24, rows).tolist()
    label = rng.choice([-1, 0, 1], rows).tolist()
    time = rng.integers(0, 2**32, rows).tolist()
    schema = Schema("click", ("user", "item"), ("price", "age"), (("user", "item"), ("item", "hour", "user")), "at")
    table = pa.RecordBatch.from_pydict(
        {
            "price": pa.array(price, pa.float64()),
            "hour": pa.array(hour, pa.int8()),
            "user": pa.array(user),
            "item": pa.array(item, pa.int32()),
            "other": pa.array(item),
            "age": pa.array(hour, pa.uint16()),
            "at": pa.array(time, pa.int64()),
            "click": pa.array(label, pa.int8()),
        }
    )
    wanted = []
    for row in range(rows):
        keys = {name: key(name, cells[row]) for name, cells in (("user", user), ("item", item), ("hour", hour))}
        features = [(0, keys["user"], 1.0), (1, keys["item"], 1.0)]
        if price[row] is not None:
            features.append((2, xxhash.xxh64_intdigest(b"price"), float(np.float32(price[row]))))
        features.append((3, xxhash.xxh64_intdigest(b"age"), float(hour[row])))
        for field, group in enumerate((("user", "item"), ("item", "hour", "user")), 4):
            crossed = cross_keys([np.array([keys[name]], np.uint64) for name in group])
            features.append((field, int(crossed[0]), 1.0))
        wanted.append((max(float(label[row]), 0.0), features))
    twice = pa.Table.from_batches([table, table]).combine_chunks().to_batches()[0]
    for rows_given in (table, twice.slice(rows - 3, rows + 3).slice(3)):
        found = batch_of_columns(rows_given, schema, location=LOCATION)
        assert rows_of(found) == wanted
        assert found.times is not None and found.times.tolist() == time


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.dictionary(pa.int8(), pa.string())]
)
def test_text_of_every_type_has_the_same_keys(kind: Any) -> None:
    cells = ["a", None, "", "köln", "a", "x" * 100, None, "7"]
    encoded = [cell.encode() if cell is not None and "binary" in str(kind) else cell for cell in cells]
    column = pa.array(encoded, pa.string() if pa.types.is_dictionary(kind) else kind)
    column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column
    wanted = [key("c", cell) for cell in cells]
    assert keys_read(column) == wanted
    assert keys_read(column.slice(1)) == wanted[1:]
    assert keys_read(column.slice(2, 4)) == wanted[2:6]  # without nulls
    assert keys_read(pa.concat_arrays([column, column]).slice(6, 4)) == [*wanted, *wanted][6:10]


def test_a_dictionary_may_have_null_entries_and_more_entries_than_rows() -> None:
    entries = ["a", None, *map(str, range(20))]
    column = pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int8()), pa.array(entries))
    assert keys_read(column) == [key("c", None), key("c", "a"), key("c", None)]
    column = pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 0] * 10, pa.int8()), pa.array(entries))
    assert keys_read(column) == [key("c", None), key("c", "a"), key("c", None), key("c", "a")] * 10
    numbers = pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int8()), pa.array([2**40]))
    assert keys_read(numbers) == [key("c", 2**40), key("c", None)]
    nothing = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.array([], pa.string()))
    assert keys_read(nothing) == [key("c", None)] * 2


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pa.array([True, False, None]), ["true", "false", ""]),
        (pa.array([2**64 - 1, 0], pa.uint64()), [2**64 - 1, 0]),
        (pa.array([3.0, -2.0, None], pa.float32()), [3, -2, ""]),
        (pa.array([None, None], pa.null()), ["", ""]),
        (pa.array([datetime.date(2018, 5, 1)]), ["2018-05-01"]),
        (pa.array([decimal.Decimal("1.50")]), ["1.5"]),
        (pa.array([1.5, float("nan"), 1e22, 0.1]), ["1.5", "", 10**22, "0.1"]),
        (pa.array([0.1], pa.float32()), ["0.1"]),
    ],
)
def test_other_types_are_written_as_text(column: Any, texts: list[object]) -> None:
    assert keys_read(column) == [key("c", text) for text in texts]


def test_models_without_types_keep_the_texts_of_arrow() -> None:
    schema = Schema(categorical=("c",), key_rule=1)
    for column, text in (
        (pa.array([decimal.Decimal("1.50")]), "1.50"),
        (pa.array([datetime.datetime(2018, 5, 1)], pa.timestamp("ms")), "2018-05-01 00:00:00.000"),
        (pa.array([True]), "true"),
        (pa.array([7.0]), "7"),
        (pa.array(["7.0"]), "7.0"),
    ):
        assert read({"c": column}, schema).keys.tolist() == [key("c", text)]
    with pytest.raises(DataError, match=r"categorical column 'c' has the fraction 1\.5"):
        read({"c": pa.array([1.5])}, schema)


def test_pandas_categoricals(seed: int) -> None:
    pandas = pytest.importorskip("pandas")
    cells = np.random.default_rng(seed).choice(["red", "green", "blue"], 100).tolist()
    frame = pandas.DataFrame({"c": pandas.Categorical([*cells, None]), "label": [0] * 101})
    rows = pa.RecordBatch.from_pandas(frame)
    found = batch_of_columns(rows, Schema(categorical=("c",)), location=LOCATION)
    assert found.keys.tolist() == [key("c", cell) for cell in [*cells, None]]


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (pa.array([1, None, -3], pa.int16()), [1, None, -3]),
        (pa.array([1.5, None], pa.float32()), [1.5, None]),
        (pa.array(["1.5", "", None, "NA", " -2e3 "]), [1.5, None, None, None, -2000.0]),
        (pa.array([b"7", b"null"]), [7, None]),
        (pa.array(["0.25", "4", "4"]).dictionary_encode(), [0.25, 4, 4]),
        (pa.array([True, False, None]), [1, 0, None]),
        (pa.array([decimal.Decimal("1.50")]), [1.5]),
        (pa.array([None], pa.null()), [None]),
    ],
)
def test_numbers_of_every_type(cells: Any, numbers: list[float | None]) -> None:
    found = rows_of(read({"n": cells}, Schema(numeric=("n",))))
    name = xxhash.xxh64_intdigest(b"n")
    assert [features for _, features in found] == [[] if each is None else [(0, name, each)] for each in numbers]


def test_labels_of_every_type() -> None:
    schema = Schema(categorical=("c",))
    for labels in (pa.array([True, False]), pa.array(["1", "-1"]), pa.array([1.0, 0.0]), pa.array([b"1", b"0"])):
        rows = pa.RecordBatch.from_pydict({"c": ["a", "b"], "label": labels})
        assert batch_of_columns(rows, schema, location=LOCATION).labels.tolist() == [1, 0]
    rows = pa.RecordBatch.from_pydict({"c": ["a"], "label": [-2.5]})
    assert batch_of_columns(rows, schema, task="regression", location=LOCATION).labels.tolist() == [-2.5]
    unlabelled = rows.select(["c"])
    assert np.isnan(batch_of_columns(unlabelled, schema, location=LOCATION, labelled=False).labels).all()
    with pytest.raises(DataError, match=r"there is no label column 'label'"):
        batch_of_columns(unlabelled, schema, location=LOCATION)


def test_times_of_every_type() -> None:
    seconds = 1_525_132_800  # 2018-05-01
    stamp = datetime.datetime(2018, 5, 1)
    columns = [
        pa.array([seconds]),
        pa.array([float(seconds) + 0.25]),
        pa.array([stamp], pa.timestamp("ns")),
        pa.array([stamp], pa.timestamp("ms", "UTC")),
        pa.array([stamp.date()]),
        pa.array([str(seconds)]),
        pa.array(["2018-05-01"]),
        pa.array([b"2018-05-01 00:00:00"]),
        pa.array(["2018-05-01T00:00:00"]).dictionary_encode(),
    ]
    for column in columns:
        found = read({"c": ["a"], "t": column}, Schema(categorical=("c",), time="t"))
        assert found.times is not None and found.times.tolist() == [seconds], column.type


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": [0, 1, 2]}, "row 1003: label 2 is neither 0 nor 1"),
        ({"label": [0, None, 2]}, "row 1002: label column 'label' is empty"),
        ({"label": ["0", "1", "so"]}, r"row 1003: label 'so' is neither 0 nor 1 \(nor -1, true, false, yes or no\)"),
        ({"label": [[1], [0], [1]]}, "label column 'label' is list<.*>: it has more than one value in a row"),
        ({"n": ["1", "x", "y"]}, "row 1002: numeric column 'n' has 'x', which is not a finite number"),
        (
            {"n": ["1", "0,5", "y"]},
            "row 1002: numeric column 'n' has '0,5', which is not a finite number: say so if the comma is",
        ),
        ({"n": [1.0, float("-inf"), 0.0]}, "row 1002: numeric column 'n' is -inf, not a finite float32"),
        ({"n": [1e39, 1.0, 1.0]}, "row 1001: numeric column 'n' is inf, not a finite float32"),
        ({"n": [[1], [2], [3]]}, "numeric column 'n' is list<.*>, not a number"),
        ({"c": [[1], [2], [3]]}, "categorical column 'c' is list<.*>: it has no text; use --several"),
        ({"t": [1, None, 3]}, "row 1002: time column 't' is empty"),
        ({"t": ["1", "", "3"]}, "row 1002: time column 't' is empty"),
        ({"t": ["1", "soon", "3"]}, "row 1002: time column 't' has 'soon', which is not a finite number"),
        ({"t": [1.0, 2.0, float("inf")]}, "row 1003: time column 't' is inf"),
        ({"t": [datetime.time(1), datetime.time(2), None]}, "row 1003: time column 't' is empty"),
        ({"t": [datetime.time(1)] * 3}, "time column 't': "),
    ],
)
def test_an_error_names_the_row(changes: dict[str, Any], message: str) -> None:
    columns = {"c": ["a", "b", "c"], "n": [1.0, 2.0, 3.0], "t": [1, 2, 3], "label": [0, 1, 0], **changes}
    rows = pa.RecordBatch.from_pydict({name: pa.array(cells) for name, cells in columns.items()})
    with pytest.raises(DataError, match=f"^day.parquet(, |: ){message}") as error:
        batch_of_columns(rows, Schema(categorical=("c",), numeric=("n",), time="t"), location=LOCATION)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_nan_is_missing_as_its_text_is(kind: pa.DataType) -> None:
    """In numbers and in buckets; labels and weights that are missing are an error."""
    numbers, none = np.array([1.5, np.nan, 3.0], kind.to_pandas_dtype()), pa.array(["1.5", "nan", "3"])
    for schema in (Schema("label", numeric=("n",)), Schema("label", ("n",), transforms=(("n", "buckets", (2.0,)),))):
        for column in (pa.array(numbers, kind, from_pandas=False), pa.array([1.5, None, 3.0], kind)):
            found, wanted = read({"n": column}, schema), read({"n": none}, schema)
            for name in ("keys", "values", "offsets"):
                assert np.array_equal(getattr(found, name), getattr(wanted, name))
    rows = pa.RecordBatch.from_pydict({"n": pa.array(numbers), "label": pa.array([0.0, np.nan, 1.0])})
    with pytest.raises(DataError, match="row 1002: label column 'label' is empty"):
        batch_of_columns(rows, Schema("label", numeric=("n",)), location=LOCATION)


def test_no_rows_and_no_features() -> None:
    empty = read({"c": pa.array([], pa.string()), "n": pa.array([], pa.float64())}, Schema("label", ("c",), ("n",)))
    assert (empty.rows, empty.nnz) == (0, 0)
    assert rows_of(read({"c": ["a", "b"]}, Schema())) == [(0.0, []), (0.0, [])]


KINDS = {
    "label": pa.int8(),
    "text": pa.string(),
    "code": pa.dictionary(pa.int8(), pa.string()),
    "flag": pa.bool_(),
    "count": pa.int64(),
    "day": pa.date32(),
    "price": pa.float64(),
    "score": pa.float32(),
    "cost": pa.decimal128(5, 2),
}


def test_the_default_schema_goes_by_types() -> None:
    columns = pa.schema(list(KINDS.items()))
    categorical, numeric = ("text", "code", "flag", "count"), ("price", "score", "cost")
    types = {"text": "text", "code": "text", "flag": "boolean", "count": "number", "day": "time", "label": "number"}
    found = default_schema(columns, "f")
    assert found == Schema("label", (*categorical, "day"), numeric).with_types(types)
    assert dict(found.types) == {name: types[name] for name in (*categorical, "day")}
    found = default_schema(columns, "f", label="flag", time="day")
    assert found == Schema("flag", ("label", "text", "code", "count"), numeric, (), "day").with_types(types)
    lists = pa.schema({"keys": pa.list_(pa.uint64()), "values": pa.list_(pa.float32()), "label": pa.int8()})
    assert default_schema(lists, "f") == ListSchema("label", "keys", None, "values")
    assert default_schema(lists.append(pa.field("fields", pa.list_(pa.int8()))), "f").columns[1] == "fields"


def test_a_default_schema_needs_a_label_and_plain_columns() -> None:
    columns = pa.schema(list(KINDS.items()))
    with pytest.raises(DataError, match=r"f: there is no label column 'lable'; did you mean 'label'?"):
        default_schema(columns, "f", label="lable")
    with pytest.raises(DataError, match=r"f: there is no column 'tme'"):
        default_schema(columns, "f", time="tme")
    assert default_schema(columns.remove(0), "f", labelled=False).label == "label"
    nested = columns.append(pa.field("tags", pa.list_(pa.float32())))
    with pytest.raises(
        DataError, match=r"f: column 'tags' is list<.*>, which is no feature: leave it out, --ignore tags$"
    ):
        default_schema(nested, "f")
