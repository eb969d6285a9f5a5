"""Payloads of sparse vectors: the bytes, and what is said of damaged ones."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from bitlane.compress.codecs import rice, sparse
from bitlane.compress.codecs.wire import HEADER_BYTES, CodecId, Header, PayloadError, join
from bitlane.errors import DataError


def example(seed: int) -> tuple[np.ndarray, np.ndarray, bytes]:
    rng = np.random.default_rng(seed)
    places = np.flatnonzero(rng.random(3000) < 0.05)
    values = rng.normal(size=len(places)).astype(np.float32)
    return places, values, sparse.to_payload(places, values, 3000)


def test_there_and_back(seed: int) -> None:
    places, values, payload = example(seed)
    found, read, n = sparse.from_payload(payload)
    assert np.array_equal(found, places) and read.tobytes() == values.tobytes() and n == 3000
    assert (found.dtype, read.dtype) == (np.int64, np.float32)


def test_the_bytes(seed: int) -> None:
    places, values, payload = example(seed)
    body = rice.encode(places, 3000).tobytes() + struct.pack(f"<{len(values)}f", *values.tolist())
    assert payload == join(Header(CodecId.SPARSE, 0, 3000, len(body)), body)


def test_nothing_at_all() -> None:
    empty = sparse.to_payload(np.zeros(0, np.int64), np.zeros(0, np.float32), 0)
    places, values, n = sparse.from_payload(empty)
    assert len(places) == len(values) == n == 0
    assert len(empty) == HEADER_BYTES + 1


def test_values_keep_every_bit() -> None:
    values = np.float32([np.nan, np.inf, -0.0, 1e-45, -3.4e38])
    assert sparse.decode(sparse.encode(np.arange(5), values, 9), 9)[1].tobytes() == values.tobytes()


def test_cut_short(seed: int) -> None:
    payload = example(seed)[2]
    for length in range(len(payload)):
        with pytest.raises(PayloadError):
            sparse.from_payload(payload[:length])
        if length >= HEADER_BYTES:
            with pytest.raises(PayloadError):
                sparse.decode(np.frombuffer(payload[HEADER_BYTES:length], np.uint8), 3000)


def test_another_version_or_codec(seed: int) -> None:
    payload = bytearray(example(seed)[2])
    with pytest.raises(PayloadError, match="codec LINEAR, where SPARSE"):
        sparse.from_payload(bytes(payload[:5]) + bytes([CodecId.LINEAR]) + bytes(payload[6:]))
    payload[4] = 7
    with pytest.raises(PayloadError, match="version 7"):
        sparse.from_payload(bytes(payload))


def test_damage(seed: int) -> None:
    rng = np.random.default_rng(seed)
    payload = example(seed)[2]
    for _ in range(2000):
        damaged = bytearray(payload)
        damaged[rng.integers(HEADER_BYTES - 16, HEADER_BYTES + 120)] = rng.integers(256)
        try:
            places, values, n = sparse.from_payload(bytes(damaged))
        except PayloadError:
            continue
        assert len(places) == len(values) and (np.diff(places) > 0).all() and places[-1] < n


@pytest.mark.parametrize("values", [np.zeros(2, np.float32), np.zeros(3), np.zeros(3, np.int32)])
def test_values_that_are_none(values: np.ndarray) -> None:
    with pytest.raises(DataError, match="one a place"):
        sparse.encode(np.arange(3), values, 10)


def test_more_values_than_bytes() -> None:
    body = sparse.encode(np.arange(20), np.zeros(20, np.float32), 20)
    with pytest.raises(PayloadError, match="too short for 20 values"):
        sparse.decode(body[:60], 20)
