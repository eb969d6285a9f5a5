"""Any body is a request or a `DataError`."""

from __future__ import annotations

import json
import math

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.sparse_serving import constant_model

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.schema import Schema
from bitlane.sparse.serving.protocol import KEY_TENSORS, batch_of_tensors, read_request
from bitlane.sparse.serving.requests import RequestBounds
from bitlane.sparse.serving.served_model import ServedVersion

ITEMS = st.none() | st.booleans() | st.integers() | st.integers(0, 3) | st.floats() | st.text(max_size=3)
DATA = st.lists(ITEMS, max_size=4) | st.lists(st.integers(0, 2**64), max_size=4) | st.lists(st.lists(ITEMS, max_size=2))
DATATYPES = st.sampled_from(["UINT64", "INT64", "UINT16", "FP32", "FP64", "BYTES", "BOOL", "INT8", "FP16"])
COLUMNS = Schema("y", ("a", "b"), ("x",), (("a", "b"),))


@st.composite
def inputs(draw) -> dict[str, object]:
    data = draw(DATA)
    shape = draw(st.just([len(data)]) | st.lists(st.integers(-1, 4), max_size=3))
    name = draw(st.sampled_from([*KEY_TENSORS, *COLUMNS.columns, "z"]))
    return {"name": name, "datatype": draw(DATATYPES), "shape": shape, "data": data}


@settings(max_examples=100)
@given(st.lists(inputs(), max_size=5), st.booleans())
def test_any_tensors_are_a_batch_or_an_error(tensors: list[object], cells: bool) -> None:
    version = ServedVersion(constant_model(1), COLUMNS if cells else None)
    try:
        found = batch_of_tensors(
            read_request(json.dumps({"inputs": tensors}).encode()).tensors, version, RequestBounds()
        )
    except DataError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(found, Batch) and all(math.isfinite(value) for value in found.values.tolist())


@settings(max_examples=100)
@given(st.binary(max_size=40) | st.recursive(ITEMS, lambda below: st.lists(below) | st.dictionaries(st.text(), below)))
def test_any_body_is_a_request_or_an_error(body: object) -> None:
    try:
        read_request(body if isinstance(body, bytes) else json.dumps(body).encode())
    except DataError as error:
        assert "\n" not in str(error)
