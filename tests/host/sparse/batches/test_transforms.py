"""Transforms: the same features of raw values from any container, as a plain program makes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
pytest.importorskip("numba")

from tests.helpers.transformed_tables import Row, random_case, rows_by_container, wanted_rows  # noqa: E402

from bitlane.errors import DataError  # noqa: E402
from bitlane.sparse.batches.checks import RowLocation  # noqa: E402
from bitlane.sparse.batches.columns import batch_of_columns  # noqa: E402
from bitlane.sparse.batches.hashing import cell_key  # noqa: E402
from bitlane.sparse.batches.schema import Schema, schema_from_json  # noqa: E402
from bitlane.sparse.batches.source import open_source  # noqa: E402

LOCATION = RowLocation("day.parquet", 11)


def check_tables(folder: Path, seed: int, tables: int) -> None:
    for number in range(tables):
        table, schema = random_case(np.random.default_rng((seed, number)))
        assert schema_from_json(json.loads(json.dumps(schema.as_json()))) == schema
        wanted = wanted_rows(table, schema)
        for name, found in rows_by_container(table, schema, folder / f"{number}").items():
            assert features(found) == features(wanted), (seed, number, name, schema, table.to_pydict())
            np.testing.assert_allclose(values(found), values(wanted), rtol=1e-6, atol=1e-9, err_msg=name)


def features(rows: list[Row]) -> list[list[tuple[int, int]]]:
    return [[(field, key) for field, key, _ in row] for row in rows]


def values(rows: list[Row]) -> list[float]:
    return [number for row in rows for _, _, number in row]


@pytest.mark.filterwarnings("ignore:numeric column")
def test_any_container_has_the_features_of_a_plain_program(tmp_path: Path, seed: int) -> None:
    check_tables(tmp_path, seed, 12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:numeric column")
def test_two_thousand_transformed_tables(tmp_path: Path, seed: int) -> None:
    check_tables(tmp_path, seed, 2_000)


def test_a_float32_is_in_the_bucket_of_its_text() -> None:
    schema = Schema(categorical=("n",), transforms=(("n", "buckets", (0.1, 0.3)),))
    cells = [pa.array(np.array([0.1, 0.3, 0.2], dtype)) for dtype in (np.float32, np.float64)]
    cells.append(pa.array(["0.1", "0.3", "0.2"]))
    found = [batch_of_columns(rows_of(n=each), schema, location=LOCATION).keys.tolist() for each in cells]
    assert found[0] == found[1] == found[2] and len(set(found[0])) == 2


def rows_of(**columns: Any) -> Any:
    count = len(next(iter(columns.values())))
    return pa.RecordBatch.from_pydict({"label": [0] * count, **columns})


@pytest.mark.parametrize(
    ("transforms", "message"),
    [
        ([("n", "square", ())], "column 'n' has the transform 'square'; clip, log1p, buckets, hour, weekday are known"),
        ([("n", "log1p", ()), ("n", "log1p", ())], "column 'n' has the transform log1p twice"),
        ([("n", "clip", (1,))], "column 'n': clip must be [low, high], two finite numbers; got [1]"),
        ([("n", "clip", (2, 2))], "column 'n': clip must be [low, high], two finite numbers; got [2, 2]"),
        ([("n", "clip", (0, float("inf")))], "column 'n': clip must be [low, high], two finite numbers; got [0, inf]"),
        ([("n", "log1p", (1,))], "column 'n': log1p has no settings; got [1]"),
        ([("c", "log1p", ())], "column 'c' has the transform log1p, which is one of numeric columns"),
        ([("n", "buckets", (1,))], "column 'n' has buckets, which make it a category: it must be categorical"),
        ([("c", "buckets", (2, 1))], "column 'c': edges must increase, as float32; got [2, 1]"),
        ([("c", "buckets", (1e9, 1e9 + 1))], "column 'c': edges must increase, as float32; got ["),
        ([("c", "buckets", ("1",))], "column 'c': edges must be finite numbers; got ['1']"),
        ([("t", "hour", ())], "column 't': the zone None is unknown here: use a name such as UTC or Europe/Berlin"),
        ([("t", "hour", ("Mars",))], "column 't': the zone 'Mars' is unknown here"),
        ([("t", "hour", ("../etc",))], "column 't': the zone '../etc' is unknown here"),
        ([("label", "hour", ("UTC",))], "column 'label' is the label, and no feature is made of it"),
        ([("t", "hour", ("UTC",)), ("hour(t)", "hour", ("UTC",))], None),
    ],
)
def test_transforms_that_cannot_be(transforms: list[Any], message: str | None) -> None:
    settings: dict[str, Any] = {"categorical": ("c",), "numeric": ("n",), "transforms": tuple(transforms)}
    if message is None:
        assert Schema(**settings).field_names == ("c", "n", "hour(t)", "hour(hour(t))")
        return
    with pytest.raises(DataError) as error:
        Schema(**settings)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


def test_names_of_parts_are_names_of_columns() -> None:
    hours = (("t", "hour", ("UTC",)),)
    with pytest.raises(DataError, match=r"column 'hour\(t\)' is used twice in the schema"):
        Schema(categorical=("hour(t)",), transforms=hours)
    with pytest.raises(DataError, match=r"columns 'hour\(t\)' and 'hour\(t\)=1' would share keys"):
        Schema(categorical=("hour(t)=1",), transforms=hours)
    schema = Schema("y", ("c",), crosses=(("c", "hour(t)"),), time="t", transforms=hours)
    assert schema.columns == ("c", "t") and schema.hashed == ("c",) and schema.part_names == ("hour(t)",)
    assert schema.text() == "label y; time t; categorical c (text); hour(t) in UTC; crosses c x hour(t)"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"n": ["1", "x"]}, "row 12: numeric column 'n' has 'x', which is not a finite number"),
        ({"n": [1.0, np.inf]}, "row 12: numeric column 'n' is inf, not a finite float32"),
        ({"b": ["1", "x"]}, "row 12: column 'b' of buckets has 'x', which is not a finite number"),
        ({"b": [1.0, np.inf]}, "row 12: column 'b' of buckets is inf, not a finite float32"),
        ({"b": [1.0, 1e39]}, "row 12: column 'b' of buckets is inf, not a finite float32"),
        ({"t": ["2020-01-01", "soon"]}, "row 12: column 't' of times has 'soon', which is no time"),
    ],
)
def test_cells_that_cannot_be_transformed(columns: dict[str, Any], message: str) -> None:
    usual = {"n": [1.0, 2.0], "b": [1.0, 2.0], "t": [0, 1]}
    transforms = (("n", "clip", (0, 1)), ("b", "buckets", (1,)), ("t", "hour", ("UTC",)))
    schema = Schema(categorical=("b",), numeric=("n",), transforms=transforms)
    with pytest.raises(DataError) as error:
        batch_of_columns(rows_of(**{**usual, **columns}), schema, location=LOCATION)
    assert message in str(error.value)


def test_models_without_transforms_are_written_as_before() -> None:
    assert "transforms" not in Schema(categorical=("a",)).as_json()


def test_json_numbers_that_begin_as_integers(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"label": 1, "n": {number}}}\n' for number in (*range(9), 2.5, 8.5)))
    schema = Schema(categorical=("n",), transforms=(("n", "buckets", (3.0,)),))
    found = [
        key for batch in open_source(path, schema=schema, block_bytes=40).batches(0) for key in batch.keys.tolist()
    ]
    assert found == [cell_key("n", str(int(number >= 3))) for number in (*range(9), 2.5, 8.5)]
