"""Random tables of values of all types, in every container that people have: files, data frames and requests."""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from pyarrow import ipc

from bitlane.sparse.batches.checks import RowLocation
from bitlane.sparse.batches.columns import batch_of_columns
from bitlane.sparse.batches.schema import Schema
from bitlane.sparse.batches.source import open_source
from bitlane.sparse.estimators.encoding import RowEncoder
from bitlane.sparse.serving.protocol import batch_of_tensors, read_request
from bitlane.sparse.serving.requests import RequestBounds

try:
    import polars
except ImportError:  # no part of any extra
    polars = None

Cells = list[Any]
_START = datetime.datetime(1971, 3, 1)
_LETTERS = [*"abcXYZ", "é", "e\u0301", "ß", "0", "1", "7", ".", "-", "+", ":", " ", '"', ",", "=", "T", "Z"]
_WORDS = ["007", "1.50", "1.5", "7", "-0", "true", "True", "2020-01-01", "2020-01-01 00:00:00", "NA", "None", "1e3"]


def random_column(rng: np.random.Generator, rows: int) -> tuple[pa.Array, str]:
    """Return a column of a random type, some of its cells missing, and the name of its kind."""
    kind = str(rng.choice([*_KINDS]))
    cells = _KINDS[kind](rng, rows)
    if rng.random() < 0.5:
        cells = pa.array([None if rng.random() < 0.2 else cell for cell in cells.to_pylist()], cells.type)
    if cells.null_count == len(cells):
        cells = _KINDS[kind](rng, rows)
    return cells, kind


def _texts(rng: np.random.Generator, rows: int) -> pa.Array:
    words = ["".join(rng.choice(_LETTERS, rng.integers(1, 6))) for _ in range(6)]
    return pa.array([str(each) for each in rng.choice([*words, *rng.choice(_WORDS, 6)], rows)])


def _codes(rng: np.random.Generator, rows: int) -> pa.Array:
    return pa.array([str(rng.integers(0, 300)).zfill(int(rng.integers(1, 4))) for _ in range(rows)])


def _integers(rng: np.random.Generator, rows: int) -> pa.Array:
    kind = rng.choice(["int8", "uint8", "int16", "int32", "int64", "uint32"])
    limits = np.iinfo(kind)
    low, high = max(limits.min, -(10**9)), min(limits.max, 10**9)
    return pa.array(rng.integers(low, high, rows).astype(kind))


def _fractions(rng: np.random.Generator, rows: int) -> pa.Array:
    return pa.array(rng.choice([0.1, 0.25, 1e-5, 7.0, -2.5, 123456.75, float(rng.integers(100)) / 8], rows))


def _decimals(rng: np.random.Generator, rows: int) -> pa.Array:
    digits = int(rng.integers(0, 5))
    values = [decimal.Decimal(int(each)).scaleb(-digits) for each in rng.integers(-(10**6), 10**6, rows)]
    return pa.array(values, pa.decimal128(20, digits))


def _stamps(rng: np.random.Generator, rows: int) -> pa.Array:
    unit = str(rng.choice(["s", "ms", "us", "ns"]))
    grain = datetime.timedelta(**{str(rng.choice(["days", "hours", "seconds", "milliseconds"])): 1})
    zone = rng.choice([None, "UTC", "Europe/Berlin", "Asia/Kolkata"])
    most = datetime.timedelta(days=50_000) // grain
    values = [_START + int(rng.integers(most)) * grain for _ in range(rows)]
    if unit == "s":
        values = [value.replace(microsecond=0) for value in values]
    return pa.array(values, pa.timestamp(unit)).cast(pa.timestamp(unit, zone))


def _dates(rng: np.random.Generator, rows: int) -> pa.Array:
    days = [(_START + datetime.timedelta(days=int(each))).date() for each in rng.integers(0, 50_000, rows)]
    return pa.array(days, pa.date32() if rng.random() < 0.7 else pa.date64())


def _clocks(rng: np.random.Generator, rows: int) -> pa.Array:
    seconds = [int(each) for each in rng.integers(0, 86_400, rows)]
    return pa.array([(_START + datetime.timedelta(seconds=each)).time() for each in seconds], pa.time64("us"))


def _categories(rng: np.random.Generator, rows: int) -> pa.Array:
    return _KINDS[str(rng.choice(["text", "code"]))](rng, rows).dictionary_encode()


_KINDS: dict[str, Callable[[np.random.Generator, int], pa.Array]] = {
    "text": _texts,
    "code": _codes,
    "integer": _integers,
    "boolean": lambda rng, rows: pa.array(rng.random(rows) < 0.5),
    "fraction": _fractions,
    "decimal": _decimals,
    "stamp": _stamps,
    "date": _dates,
    "clock": _clocks,
    "category": _categories,
}


def random_table(rng: np.random.Generator) -> tuple[pa.Table, list[str]]:
    """Return a table of a label and one to four random columns, c0, c1, ..., and their kinds."""
    rows = int(rng.integers(2, 12))
    columns = [random_column(rng, rows) for _ in range(rng.integers(1, 5))]
    arrays = {"label": pa.array(rng.integers(0, 2, rows))} | {f"c{i}": each for i, (each, _) in enumerate(columns)}
    return pa.table(arrays), [kind for _, kind in columns]


def keys_by_container(table: pa.Table, schema: Schema, folder: Path) -> dict[str, list[int]]:
    """Return the keys that a schema makes of a table in each container."""
    write_files(table, folder)
    found = {path.name: file_keys(path, schema) for path in sorted(folder.iterdir())}
    frames: dict[str, Any] = {"arrow": table, "pandas": table.to_pandas()}
    if polars is not None:
        frames["polars"] = polars.from_arrow(table)
    width = len(schema.categorical)
    encoder = RowEncoder("table", width, width, None, schema, np.array(table.column_names, object))
    found |= {name: encoder.encode(frame, "test").keys.tolist() for name, frame in frames.items()}
    return found | {"request": _request_keys(table, schema)}


def write_files(table: pa.Table, folder: Path) -> None:
    """Write a table to a file of each kind and writer."""
    folder.mkdir()
    frame = table.to_pandas()
    frame.to_csv(folder / "pandas.csv", index=False)
    frame.to_csv(folder / "pandas.tsv", index=False, sep="\t")
    plain = _without_decimals(table)
    if not any(pa.types.is_time(column.type) for column in table.columns):  # pandas writes these as numbers
        plain.to_pandas().to_json(
            folder / "pandas.jsonl", orient="records", lines=True, date_format="iso", date_unit="ns"
        )
    if not any(pa.types.is_dictionary(column.type) for column in table.columns):
        pyarrow.csv.write_csv(table, folder / "arrow.csv")
    pq.write_table(table, folder / "arrow.parquet")
    pq.write_table(table.cast(_larger(table.schema)), folder / "larger.parquet")
    with ipc.new_stream(str(folder / "stream.arrow"), table.schema) as stream:
        stream.write_table(table)
    if polars is not None:
        other = polars.from_arrow(table)
        other.write_csv(folder / "polars.csv")
        polars.from_arrow(plain).write_ndjson(folder / "polars.jsonl")
        other.write_parquet(folder / "polars.parquet")


def _without_decimals(table: pa.Table) -> pa.Table:
    """Return a table with doubles for decimals, which JSON would have as texts."""
    for index, column in enumerate(table.columns):
        if pa.types.is_decimal(column.type):
            numbers = pa.array([None if each is None else float(each) for each in column.to_pylist()])
            table = table.set_column(index, table.column_names[index], numbers)
    return table


def _larger(schema: pa.Schema) -> pa.Schema:
    """Return the same columns with types that hold more: the values are the same."""
    wider = {"string": pa.large_string(), "date32[day]": pa.timestamp("ms"), "double": pa.float64()}
    fields = []
    for field in schema:
        kind = wider.get(str(field.type), field.type)
        if pa.types.is_timestamp(kind):
            kind = pa.timestamp("us" if kind.unit == "ms" else "ns", kind.tz)
        if pa.types.is_integer(kind):
            kind = pa.int64()
        fields.append((field.name, kind))
    return pa.schema(fields)


def file_keys(path: Path, schema: Schema) -> list[int]:
    """Return the keys that a schema makes of a file."""
    return [key for batch in open_source(path, schema=schema).batches(0) for key in batch.keys.tolist()]


def arrow_keys(table: pa.Table, schema: Schema) -> list[int]:
    """Return the keys that a schema makes of an Arrow table."""
    batches = table.combine_chunks().to_batches()
    return [key for rows in batches for key in batch_of_columns(rows, schema, location=RowLocation("x")).keys.tolist()]


def _request_keys(table: pa.Table, schema: Schema) -> list[int]:
    inputs = [tensor_of(name, table[name].to_pylist()) for name in schema.categorical]
    request = read_request(json.dumps({"inputs": inputs}).encode())
    version = type("Version", (), {"schema": schema})()
    return batch_of_tensors(request.tensors, version, RequestBounds()).keys.tolist()


def tensor_of(name: str, cells: Cells) -> dict[str, Any]:
    """Return a column as the tensor of a request."""
    first = next(cell for cell in cells if cell is not None)
    datatype = {bool: "BOOL", int: "INT64", float: "FP64"}.get(type(first), "BYTES")
    data = [cell if cell is None or datatype != "BYTES" else _text(cell) for cell in cells]
    return {"name": name, "datatype": datatype, "shape": [len(cells)], "data": data}


def _text(cell: Any) -> str:
    return cell.isoformat() if hasattr(cell, "isoformat") else str(cell)
