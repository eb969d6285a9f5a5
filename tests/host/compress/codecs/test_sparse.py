"""Payloads of sparse vectors: the bytes, round trips, and errors for damaged payloads."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.properties import SEEDS, damage, damaged, index_sets, share

from bitlane.compress.codecs import rice, sparse
from bitlane.compress.codecs.wire import HEADER_BYTES, CodecId, Header, PayloadError, join
from bitlane.errors import DataError


def example(seed: int) -> tuple[np.ndarray, np.ndarray, bytes]:
    rng = np.random.default_rng(seed)
    indices = np.flatnonzero(rng.random(3000) < 0.05)
    values = rng.normal(size=len(indices)).astype(np.float32)
    return indices, values, sparse.to_payload(indices, values, 3000)


@given(index_sets(), SEEDS)
def test_any_bits_survive_the_round_trip(case: tuple[list[int], int], data_seed: int) -> None:
    """NaN, infinities, denormal numbers and negative zero too."""
    indices, length = np.array(case[0], np.int64), case[1]
    bits = np.random.default_rng(data_seed).integers(0, 2**32, len(indices), np.uint32)
    found, values, n = sparse.from_payload(sparse.to_payload(indices, bits.view(np.float32), length))
    assert np.array_equal(found, indices) and values.tobytes() == bits.tobytes() and n == length
    assert (found.dtype, values.dtype) == (np.int64, np.float32)


def test_the_bytes(seed: int) -> None:
    indices, values, payload = example(seed)
    body = rice.encode(indices, 3000).tobytes() + struct.pack(f"<{len(values)}f", *values.tolist())
    assert payload == join(Header(CodecId.SPARSE, 0, 3000, len(body)), body)


def test_the_empty_vector() -> None:
    empty = sparse.to_payload(np.zeros(0, np.int64), np.zeros(0, np.float32), 0)
    indices, values, n = sparse.from_payload(empty)
    assert len(indices) == len(values) == n == 0
    assert len(empty) == HEADER_BYTES + 1


def test_special_values_keep_every_bit() -> None:
    values = np.float32([np.nan, np.inf, -0.0, 1e-45, -3.4e38])
    assert sparse.decode(sparse.encode(np.arange(5), values, 9), 9)[1].tobytes() == values.tobytes()


def test_truncated_payloads_are_refused(seed: int) -> None:
    payload = example(seed)[2]
    for length in range(len(payload)):
        with pytest.raises(PayloadError):
            sparse.from_payload(payload[:length])
        if length >= HEADER_BYTES:
            with pytest.raises(PayloadError):
                sparse.decode(np.frombuffer(payload[HEADER_BYTES:length], np.uint8), 3000)


def test_another_version_or_codec(seed: int) -> None:
    payload = bytearray(example(seed)[2])
    with pytest.raises(PayloadError, match="codec LINEAR instead of SPARSE"):
        sparse.from_payload(bytes(payload[:5]) + bytes([CodecId.LINEAR]) + bytes(payload[6:]))
    payload[4] = 7
    with pytest.raises(PayloadError, match="version 7"):
        sparse.from_payload(bytes(payload))


PAYLOAD = example(7)[2]


@share(1 / 4)
@given(damage(HEADER_BYTES + 120), st.booleans())
def test_damaged_payloads_give_valid_vectors_or_an_error(changes: list[tuple[int, int]], keep_magic: bool) -> None:
    """Without damage to the first 16 bytes most cases reach the codes."""
    changes = [(max(index, 16), value) if keep_magic else (index, value) for index, value in changes]
    try:
        indices, values, n = sparse.from_payload(damaged(PAYLOAD, changes))
    except PayloadError:
        return
    assert len(indices) == len(values) and (np.diff(indices) > 0).all() and (indices < n).all()


@pytest.mark.parametrize("values", [np.zeros(2, np.float32), np.zeros(3), np.zeros(3, np.int32)])
def test_other_values_are_refused(values: np.ndarray) -> None:
    with pytest.raises(DataError, match="one per index"):
        sparse.encode(np.arange(3), values, 10)


def test_more_values_than_bytes() -> None:
    body = sparse.encode(np.arange(20), np.zeros(20, np.float32), 20)
    with pytest.raises(PayloadError, match="too short for 20 values"):
        sparse.decode(body[:60], 20)
