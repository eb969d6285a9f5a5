"""Requests as they arrive over Arrow Flight: the arrays that were sent, slices of them, and damaged ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.serving import messages
from bitlane.sparse.serving.messages import LANES, batch_of_request, lane_of, request_batch, request_schema
from bitlane.sparse.serving.requests import RequestBounds

BOUNDS = RequestBounds()


def parts_of(seed: int, lane: str) -> dict[str, np.ndarray | None]:
    draw = np.random.default_rng(seed)
    lengths = draw.integers(0, 5, 20)
    nnz = int(lengths.sum())
    return {
        "keys": draw.integers(0, 2**64, nnz, dtype=np.uint64),
        "offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        "fields": draw.integers(0, 2**16, nnz).astype(np.uint16) if "field" in lane else None,
        "values": draw.normal(size=nnz).astype(np.float32) if "value" in lane else None,
    }


def sent(batch: pa.RecordBatch, shift: int = 0) -> pa.RecordBatch:
    """A record batch after the wire, its memory moved by some bytes."""
    data = bytes(shift) + batch.serialize().to_pybytes()
    return pa.ipc.read_record_batch(pa.py_buffer(data).slice(shift), batch.schema)


def assert_same(batch: Batch, parts) -> None:
    nnz = len(parts["keys"])
    assert np.array_equal(batch.keys, parts["keys"]) and np.array_equal(batch.offsets, parts["offsets"])
    assert np.array_equal(batch.fields, np.zeros(nnz) if parts["fields"] is None else parts["fields"])
    assert np.array_equal(batch.values, np.ones(nnz) if parts["values"] is None else parts["values"])


@pytest.mark.parametrize("lane", LANES)
def test_what_is_sent_arrives(lane: str, seed: int) -> None:
    parts = parts_of(seed, lane)
    request = request_batch(**parts)
    assert lane_of(parts["fields"], parts["values"]) == lane and request.schema.equals(request_schema(lane))
    for shift in (0, 1, 4, 8):
        assert_same(batch_of_request(sent(request, shift), lane, BOUNDS), parts)


@pytest.mark.parametrize("lane", LANES)
def test_slices_are_their_rows(lane: str, seed: int) -> None:
    parts = parts_of(seed, lane)
    request = request_batch(**parts)
    first, last = int(parts["offsets"][5]), int(parts["offsets"][12])
    wanted = {name: None if part is None else part[first:last] for name, part in parts.items()}
    wanted["offsets"] = parts["offsets"][5:13] - first
    for found in (request.slice(5, 7), sent(request.slice(5, 7)), sent(request).slice(5, 7)):
        assert_same(batch_of_request(found, lane, BOUNDS), wanted)
    for empty in (request.slice(3, 0), sent(request.slice(3, 0))):
        assert batch_of_request(empty, lane, BOUNDS).rows == 0


def test_the_memory_is_that_of_the_message(seed: int) -> None:
    """Nothing is copied where the memory is aligned, on both sides."""
    parts = parts_of(seed, "key")
    request = request_batch(**parts)
    found = batch_of_request(request, "key", BOUNDS)
    assert np.shares_memory(found.keys, parts["keys"]) and np.shares_memory(found.offsets, parts["offsets"])
    answer = messages.prediction_batch(predictions := np.ones(3, np.float32))
    assert answer.column(0).buffers()[1].address == predictions.ctypes.data


def test_requests_of_other_columns_are_refused() -> None:
    keys = np.array([7], np.uint64)
    request = request_batch(keys, np.array([0, 1]), None, np.ones(1, np.float32))
    with pytest.raises(DataError, match=r"^lane 'key' takes large_list<.*>; the request has features: large_list<"):
        batch_of_request(request, "key", BOUNDS)
    other = pa.record_batch([pa.array([7], pa.uint64())], names=["keys"])
    with pytest.raises(DataError, match=r"the request has keys: uint64$"):
        batch_of_request(other, "key", BOUNDS)
    with pytest.raises(DataError, match="the request has no rows"):
        batch_of_request(None, "key", BOUNDS)


@pytest.mark.parametrize("offsets", [[0, 9], [-8, 1], [2**62, 2**62 + 1], [1, 0], [0, 3, 1]])
def test_offsets_outside_of_the_features_are_refused(offsets: list[int]) -> None:
    """A client that checks nothing: its message is built byte by byte."""
    good = request_batch(np.array([7, 8, 9], np.uint64), np.arange(len(offsets), dtype=np.int64), None, None)
    data = good.serialize().to_pybytes()
    found = data.replace(np.arange(len(offsets)).astype("<i8").tobytes(), np.array(offsets).astype("<i8").tobytes())
    assert found != data
    with pytest.raises(DataError, match=r"offsets|damaged"):
        batch_of_request(pa.ipc.read_record_batch(pa.py_buffer(found), good.schema), "key", BOUNDS)
