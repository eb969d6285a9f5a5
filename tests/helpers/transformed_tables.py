"""Random tables with transformed columns, in every container, and what a plain program makes of their cells."""

from __future__ import annotations

import bisect
import datetime
import decimal
import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import xxhash
from tests.helpers.containers import polars, tensor_of, write_files

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.schema import Schema
from bitlane.sparse.batches.source import open_source
from bitlane.sparse.batches.transforms import LOG_EDGES
from bitlane.sparse.estimators.encoding import RowEncoder
from bitlane.sparse.serving.protocol import batch_of_tensors, read_request
from bitlane.sparse.serving.requests import RequestBounds

Row = list[tuple[int, int, float]]  # field, key and value of each feature
ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York", "Australia/Lord_Howe")
_START = datetime.datetime(1971, 3, 1)
_SEED = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def random_case(rng: np.random.Generator) -> tuple[pa.Table, Schema]:
    """Return a table of numbers, times and texts, some missing, and a schema that transforms them."""
    rows = int(rng.integers(2, 12))
    arrays: dict[str, pa.Array] = {"label": pa.array(rng.integers(0, 2, rows))}
    numeric = [f"n{i}" for i in range(rng.integers(0, 4))]
    bucketed = [f"b{i}" for i in range(rng.integers(0, 3))]
    timed = [f"t{i}" for i in range(rng.integers(0, 3))]
    arrays |= {name: _with_gaps(rng, _numbers(rng, rows)) for name in (*numeric, *bucketed)}
    arrays |= {name: _with_gaps(rng, _times(rng, rows)) for name in timed}
    arrays["c"] = pa.array([str(each) for each in rng.choice(["x", "y", "7"], rows)])
    transforms: list[tuple[str, str, tuple[Any, ...]]] = []
    for name in numeric:
        if rng.random() < 0.5:
            low = float(rng.integers(-50, 50))
            transforms.append((name, "clip", (low, low + float(rng.integers(1, 200)))))
        if rng.random() < 0.5:
            transforms.append((name, "log1p", ()))
    for name in bucketed:
        edges = sorted({float(each) / 8 for each in rng.integers(-200, 800, rng.integers(0, 12))})
        transforms.append((name, "buckets", LOG_EDGES if rng.random() < 0.3 else tuple(edges)))
    for name in timed:
        for part in rng.permutation(["hour", "weekday"])[: rng.integers(1, 3)]:
            transforms.append((name, str(part), (str(rng.choice(ZONES)),)))
    rng.shuffle(transforms)
    parts = [f"{kind}({name})" for name, kind, _ in transforms if kind in ("hour", "weekday")]
    categories = ["c", *bucketed, *parts]
    crosses = [tuple(map(str, rng.permutation(categories)[:2]))] if len(categories) > 1 and rng.random() < 0.5 else []
    scales = [(name, float(rng.integers(-9, 9)), float(rng.integers(50, 99))) for name in numeric if rng.random() < 0.5]
    schema = Schema(
        categorical=("c", *bucketed),
        numeric=tuple(numeric),
        crosses=tuple(crosses),
        scales=tuple(scales),
        transforms=tuple(transforms),
        types=(("c", "text"), *((name, "number") for name in bucketed)),
    )
    return pa.table(arrays), schema


def _numbers(rng: np.random.Generator, rows: int) -> pa.Array:
    eighths = rng.integers(-400, 800, rows) / 8
    kind = rng.integers(5)
    if kind == 0:
        return pa.array(rng.integers(-100, 3000, rows))
    if kind == 1:
        return pa.array((2.0 ** rng.integers(-3, 20, rows)) * rng.choice([-1, 1], rows))
    if kind == 2:
        return pa.array(eighths.astype(np.float32))
    if kind == 3:
        return pa.array([decimal.Decimal(int(each)).scaleb(-2) for each in rng.integers(-5000, 9999, rows)])
    return pa.array(eighths)


def _times(rng: np.random.Generator, rows: int) -> pa.Array:
    if rng.random() < 0.2:
        days = [(_START + datetime.timedelta(days=int(each))).date() for each in rng.integers(0, 50_000, rows)]
        return pa.array(days, pa.date32())
    unit, zone = str(rng.choice(["s", "ms", "us", "ns"])), rng.choice([None, *ZONES])
    seconds = rng.integers(0, 3 * 10**9, rows)
    count = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    return pa.array(seconds * count + rng.integers(0, count, rows), pa.int64()).cast(pa.timestamp(unit, zone))


def _with_gaps(rng: np.random.Generator, cells: pa.Array) -> pa.Array:
    gaps = rng.random(len(cells)) < rng.choice([0, 0.3])
    gaps[0] = False
    return pa.array([None if gap else cell for cell, gap in zip(cells.to_pylist(), gaps, strict=True)], cells.type)


def wanted_rows(table: pa.Table, schema: Schema) -> list[Row]:
    """Return what a plain program makes of the cells."""
    return [_row(cells, schema) for cells in table.to_pylist()]


def _row(cells: dict[str, Any], schema: Schema) -> Row:
    transforms = {(name, kind): settings for name, kind, settings in schema.transforms}
    scales = {name: (center, scale) for name, center, scale in schema.scales}
    keys: dict[str, int] = {}
    for name in schema.categorical:
        cell = cells[name]
        if cell is not None and (name, "buckets") in transforms:
            cell = bisect.bisect_right(transforms[name, "buckets"], float(cell))
        keys[name] = _key(name, cell)
    for (name, kind), settings in transforms.items():
        if kind in ("hour", "weekday"):
            keys[f"{kind}({name})"] = _key(f"{kind}({name})", _part(cells[name], kind, ZoneInfo(settings[0])))
    row: Row = [(field, keys[name], 1.0) for field, name in enumerate(schema.categorical)]
    for field, name in enumerate(schema.numeric, len(row)):
        if cells[name] is None:
            continue
        number = float(cells[name])
        if (name, "clip") in transforms:
            low, high = transforms[name, "clip"]
            number = low if number < low else high if number > high else number
        if (name, "log1p") in transforms:
            number = math.log1p(number) if number >= 0 else -math.log1p(-number)
        center, scale = scales.get(name, (0.0, 1.0))
        row.append((field, xxhash.xxh64_intdigest(name.encode()), (number - center) / scale))
    first = len(schema.categorical) + len(schema.numeric)
    parts = [f"{kind}({name})" for name, kind, _ in schema.transforms if kind in ("hour", "weekday")]
    row += [(field, keys[name], 1.0) for field, name in enumerate(parts, first)]
    for field, (a, b) in enumerate(schema.crosses, first + len(parts)):
        row.append((field, _mixed(keys[a], keys[b]), 1.0))
    return row


def _part(cell: Any, kind: str, zone: ZoneInfo) -> int | None:
    if cell is None:
        return None
    if not isinstance(cell, datetime.datetime):
        if not isinstance(cell, datetime.date):
            cell = cell.to_pydatetime()  # nanoseconds are timestamps of pandas
        else:
            cell = datetime.datetime(cell.year, cell.month, cell.day)
    if cell.tzinfo is None:
        cell = cell.replace(tzinfo=datetime.timezone.utc)
    local = cell.astimezone(zone)
    return local.hour if kind == "hour" else local.weekday()


def _key(name: str, cell: Any) -> int:
    return xxhash.xxh64_intdigest(f"{name}={'' if cell is None else cell}".encode())


def _mixed(first: int, second: int) -> int:
    word = (first * _SEED[0] + second) % 2**64
    word = (word ^ (word >> 30)) * _SEED[1] % 2**64
    word = (word ^ (word >> 27)) * _SEED[2] % 2**64
    return word ^ (word >> 31)


def rows_by_container(table: pa.Table, schema: Schema, folder: Path) -> dict[str, list[Row]]:
    """Return what a schema makes of a table in each container."""
    write_files(table, folder)
    found = {path.name: _rows(open_source(path, schema=schema).batches(0)) for path in sorted(folder.iterdir())}
    frames: dict[str, Any] = {"arrow": table, "pandas": table.to_pandas()}
    if polars is not None:
        frames["polars"] = polars.from_arrow(table)
    width = len(schema.field_names)
    encoder = RowEncoder("table", width, width, None, schema, np.array(table.column_names, object))
    found |= {name: _rows([encoder.encode(frame, "test")]) for name, frame in frames.items()}
    inputs = [tensor_of(name, table[name].to_pylist()) for name in schema.columns]
    request = read_request(json.dumps({"inputs": inputs}).encode())
    version: Any = type("Version", (), {"schema": schema})()
    return found | {"request": _rows([batch_of_tensors(request.tensors, version, RequestBounds())])}


def _rows(batches: Any) -> list[Row]:
    return [row for batch in batches for row in _rows_of(batch)]


def _rows_of(batch: Batch) -> list[Row]:
    features = list(zip(batch.fields.tolist(), batch.keys.tolist(), batch.values.tolist(), strict=True))
    bounds = batch.offsets.tolist()
    return [features[start:stop] for start, stop in pairwise(bounds)]
