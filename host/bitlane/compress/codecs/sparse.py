"""A sparse vector as bytes: the indices of its values (`rice`), then the values in float32."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

from . import rice
from .packing import Bytes
from .rice import Indices
from .wire import CodecId, Header, PayloadError, join, split

Values = NDArray[np.float32]


def encode(indices: Indices, values: Values, n: int) -> Bytes:
    """Encode values float32 [k] at ascending indices int64 [k] of a vector of length n as a body, uint8.

    Raises
    ------
    DataError
        For other arrays.
    """
    if values.dtype != np.float32 or values.shape != indices.shape:
        raise DataError(f"values are {values.dtype} {values.shape}; give float32 {indices.shape}, one per index")
    return np.concatenate([rice.encode(indices, n), np.ascontiguousarray(values, "<f4").view(np.uint8)])


def decode(body: Bytes, n: int) -> tuple[Indices, Values]:
    """Return the indices int64 [k] and values float32 [k] of a body.

    Raises
    ------
    PayloadError
        If `encode` cannot have produced the body for a vector of length n.
    """
    count, _, begin = rice.read_prefix(body)
    cut = len(body) - 4 * count
    if cut < begin:
        raise PayloadError(f"a body of {len(body)} bytes is too short for {count} values")
    indices, values = rice.decode(body[:cut], n), np.empty(count, "<f4")
    values.view(np.uint8)[...] = body[cut:]
    return indices, values.astype(np.float32, copy=False)


def to_payload(indices: Indices, values: Values, n: int) -> bytes:
    """Return a stand-alone payload: a header and the body of `encode`."""
    body = encode(indices, values, n).tobytes()
    return join(Header(CodecId.SPARSE, 0, n, len(body)), body)


def from_payload(payload: bytes) -> tuple[Indices, Values, int]:
    """Return indices, values and the vector's length n; raise PayloadError for damaged or other payloads."""
    header, body = split(payload, CodecId.SPARSE)
    indices, values = decode(np.frombuffer(body, np.uint8), header.count)
    return indices, values, header.count
