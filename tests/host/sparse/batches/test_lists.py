"""Columns of lists to rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.sparse_text import assert_same, random_batch, rows_of

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.checks import RowLocation
from bitlane.sparse.batches.schema import ListSchema

pa = pytest.importorskip("pyarrow")

from bitlane.sparse.batches.lists import batch_of_lists  # noqa: E402

LOCATION = RowLocation("part.arrow", 11)
FULL = ListSchema(fields="fields", values="values", time="time")


def lists_of(batch: Batch, large: bool = False) -> Any:
    """The batch as a record batch of lists."""
    kind = pa.LargeListArray if large else pa.ListArray
    offsets = pa.array(batch.offsets, pa.int64() if large else pa.int32())
    columns = {name: kind.from_arrays(offsets, pa.array(getattr(batch, name))) for name in ("keys", "fields", "values")}
    columns["label"] = pa.array(batch.labels)
    if batch.times is not None:
        columns["time"] = pa.array(batch.times)
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("large", [False, True])
def test_lists_come_back(large: bool, seed: int) -> None:
    batch = random_batch(np.random.default_rng(seed), 100, times=True)
    rows = lists_of(batch, large)
    assert_same(batch_of_lists(rows, FULL, location=LOCATION), batch)
    assert_same(batch_of_lists(rows.slice(7, 50).slice(3), FULL, location=LOCATION), batch.slice(10, 57))


def test_columns_that_are_not_named_are_left_out(seed: int) -> None:
    batch = random_batch(np.random.default_rng(seed), 50)
    found = batch_of_lists(lists_of(batch), ListSchema(), location=LOCATION)
    assert found.keys.tolist() == batch.keys.tolist()
    assert not found.fields.any() and (found.values == 1).all()


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint16(), pa.uint64()])
def test_keys_of_every_integer_type(kind: Any) -> None:
    rows = pa.RecordBatch.from_pydict(
        {"keys": pa.array([[1, 2], None, [], [127]], pa.list_(kind)), "label": [0, 1] * 2}
    )
    wanted = [[1, 2], [], [], [127]]
    assert [
        [key for _, key, _ in features]
        for _, features in rows_of(batch_of_lists(rows, ListSchema(), location=LOCATION))
    ] == wanted


def test_lists_of_fixed_size() -> None:
    rows = pa.RecordBatch.from_pydict({"keys": pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)), "label": [0, 1]})
    assert batch_of_lists(rows, ListSchema(), location=LOCATION).offsets.tolist() == [0, 2, 4]


def test_a_null_list_may_hide_entries() -> None:
    """Arrow allows a null in front of entries that do not count."""
    hidden = pa.ListArray.from_arrays([0, 2, 3], pa.array([8, 9, 5], pa.uint64()), mask=pa.array([True, False]))
    rows = pa.RecordBatch.from_pydict({"keys": hidden, "label": [0, 1]})
    assert rows_of(batch_of_lists(rows, ListSchema(), location=LOCATION)) == [(0.0, []), (1.0, [(0, 5, 1.0)])]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keys": [[1, 2], [-3], [4]]}, ", row 12: keys 'keys' have -3; the smallest is 0"),
        ({"keys": [[1, 2], [None], [4]]}, ", row 12: 'keys' has an empty entry"),
        ({"keys": [["a"], ["b"], ["c"]]}, ": keys 'keys' are string; they must be integers"),
        ({"keys": [1, 2, 3]}, ": column 'keys' is int64; it must be a list"),
        ({"fields": [[0, 0], [70000], [0]]}, ", row 12: fields 'fields' have 70000; the largest is 65535"),
        ({"fields": [[0, 0], [0], [-1]]}, ", row 13: fields 'fields' have -1; the smallest is 0"),
        ({"fields": [[0.5, 0], [0], [0]]}, ": fields 'fields' are double; they must be integers"),
        ({"fields": [[0], [0], [0]]}, ", row 11: 'fields' has 1 entries for 2 keys"),
        ({"values": [[1, 1], [1], []]}, ", row 13: 'values' has 0 entries for 1 keys"),
        ({"values": [[1.0, 1.0], [float("nan")], [1.0]]}, ", row 12: values 'values' is nan, not a finite float32"),
        ({"values": [[1.0, 1e39], [1.0], [1.0]]}, ", row 11: values 'values' is inf, not a finite float32"),
        ({"values": [["x", "y"], ["z"], ["w"]]}, ": values 'values' are string; they must be numbers"),
        ({"label": [0, 1, 3]}, ", row 13: label 3 is neither 0 nor 1"),
        ({"time": [0, None, 3]}, ", row 12: time column 'time' is empty"),
    ],
)
def test_an_error_names_the_row(changes: dict[str, Any], message: str) -> None:
    columns = {
        "keys": [[1, 2], [3], [4]],
        "fields": [[0, 1], [2], [3]],
        "values": [[1.0, 1.0], [1.0], [1.0]],
        "label": [0, 1, 0],
        "time": [1, 2, 3],
        **changes,
    }
    with pytest.raises(DataError, match=f"^part.arrow{message}"):
        batch_of_lists(pa.RecordBatch.from_pydict(columns), FULL, location=LOCATION)


def test_the_number_of_fields_is_a_setting() -> None:
    rows = pa.RecordBatch.from_pydict({"keys": [[1], [2]], "fields": [[7], [8]], "label": [0, 1]})
    schema = ListSchema(fields="fields")
    assert batch_of_lists(rows, schema, max_fields=9, location=LOCATION).fields.tolist() == [7, 8]
    with pytest.raises(DataError, match=r"part.arrow, row 12: fields 'fields' have 8; the largest is 7"):
        batch_of_lists(rows, schema, max_fields=8, location=LOCATION)


def test_labels_may_be_missing() -> None:
    rows = pa.RecordBatch.from_pydict({"keys": [[1], [2]]})
    assert np.isnan(batch_of_lists(rows, ListSchema(), location=LOCATION, labelled=False).labels).all()
    with pytest.raises(DataError, match=r"there is no label column 'label'"):
        batch_of_lists(rows, ListSchema(), location=LOCATION)
