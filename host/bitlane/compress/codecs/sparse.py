"""A sparse vector as bytes: the places of its values (`rice`), then the values, float32."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

from . import rice
from .packing import Bytes
from .rice import Places
from .wire import CodecId, Header, PayloadError, join, split

Values = NDArray[np.float32]


def encode(places: Places, values: Values, n: int) -> Bytes:
    """The body, uint8, of values float32 [k] at places int64 [k], rising, of a vector of n. DataError for others."""
    if values.dtype != np.float32 or values.shape != places.shape:
        raise DataError(f"values are {values.dtype} {values.shape}: float32 {places.shape}, one a place, are coded")
    return np.concatenate([rice.encode(places, n), np.ascontiguousarray(values, "<f4").view(np.uint8)])


def decode(body: Bytes, n: int) -> tuple[Places, Values]:
    """Places int64 [k] and values float32 [k] of a body; PayloadError for one that no `encode` for n values makes."""
    count, _, begin = rice.fields(body)
    cut = len(body) - 4 * count
    if cut < begin:
        raise PayloadError(f"a body of {len(body)} bytes is too short for {count} values")
    return rice.decode(body[:cut], n), np.frombuffer(body[cut:].tobytes(), "<f4").astype(np.float32)


def to_payload(places: Places, values: Values, n: int) -> bytes:
    """A payload that travels alone: a header, and the body of `encode`."""
    body = encode(places, values, n).tobytes()
    return join(Header(CodecId.SPARSE, 0, n, len(body)), body)


def from_payload(payload: bytes) -> tuple[Places, Values, int]:
    """Places, values, and the vector's length n; PayloadError for a payload that is damaged, or another."""
    header, body = split(payload, CodecId.SPARSE)
    places, values = decode(np.frombuffer(body, np.uint8), header.count)
    return places, values, header.count
