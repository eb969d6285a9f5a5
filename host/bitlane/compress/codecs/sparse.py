"""A sparse vector as bytes: the indices of its values (`rice`), then the values, in float32 or in few bits (`levels`).

Values of few bits follow a count of their chunks, as LEB128, and the indices.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

from . import levels, rice
from .packing import Bytes
from .rice import Indices
from .wire import CodecId, Header, PayloadError, join, split

Values = NDArray[np.float32]

FLOAT = 32  # bits of a value that is not rounded
VALUE_BITS = (*levels.BITS, FLOAT)


def encode(indices: Indices, values: Values, n: int, bits: int = FLOAT, seed: int | None = None) -> Bytes:
    """Encode values float32 [k] at ascending indices int64 [k] of a vector of length n as a body, uint8.

    Parameters
    ----------
    indices, values, n
        The vector.
    bits : int, default: 32
        Bits a value: 2, 4 or 8, or 32 for float32.
    seed : int, optional
        32-bit seed of stochastic rounding. None rounds to the nearest level.

    Raises
    ------
    DataError
        For other arrays or bits, and in few bits for values that are not finite.
    """
    if values.dtype != np.float32 or values.shape != indices.shape:
        raise DataError(f"values are {values.dtype} {values.shape}; give float32 {indices.shape}, one per index")
    check_bits(bits)
    codes = rice.encode(indices, n)
    if bits == FLOAT:
        return np.concatenate([codes, np.ascontiguousarray(values, "<f4").view(np.uint8)])
    chunks = rice.prefix(len(levels.chunk_begins(indices)))
    return np.concatenate([chunks, codes, levels.encode(indices, values, bits, seed)[0]])


def decode(body: Bytes, n: int, bits: int = FLOAT) -> tuple[Indices, Values]:
    """Return the indices int64 [k] and values float32 [k] of a body.

    Raises
    ------
    PayloadError
        If `encode` cannot have produced the body for a vector of length n with these bits.
    """
    begin, cut, count = parts_of(body, len(body), bits)
    indices = rice.decode(body[begin:cut], n)
    if bits < FLOAT:
        return indices, levels.decode(body[cut:], indices, bits)
    values = np.empty(count, "<f4")
    values.view(np.uint8)[...] = body[cut:]
    return indices, values.astype(np.float32, copy=False)


def parts_of(head: Bytes, length: int, bits: int) -> tuple[int, int, int]:
    """Return where the indices and the values of a body of a length begin, and their count, from its first bytes."""
    chunks, begin = rice.read_number(head) if bits < FLOAT else (0, 0)
    count, _, prefix = rice.read_prefix(head[begin:])
    cut = length - levels.value_bytes(chunks, count, bits)
    if cut < begin + prefix:
        raise PayloadError(f"a body of {length} bytes is too short for {count} values")
    return begin, cut, count


def check_bits(bits: int) -> None:
    """Raise DataError unless values can have so many bits."""
    if bits not in VALUE_BITS:
        raise DataError(f"sparse values of {bits} bits: use 2, 4 or 8, or 32 for float32")


def to_payload(indices: Indices, values: Values, n: int, bits: int = FLOAT, seed: int | None = None) -> bytes:
    """Return a stand-alone payload: a header and the body of `encode`."""
    body = encode(indices, values, n, bits, seed).tobytes()
    return join(Header(CodecId.SPARSE, 0 if bits == FLOAT else bits, n, len(body)), body)


def from_payload(payload: bytes) -> tuple[Indices, Values, int]:
    """Return indices, values and the vector's length n; raise PayloadError for damaged or other payloads."""
    header, body = split(payload, CodecId.SPARSE)
    if header.bits not in (0, *levels.BITS):
        raise PayloadError(f"payload has codec SPARSE with {header.bits} bits a value")
    indices, values = decode(np.frombuffer(body, np.uint8), header.count, header.bits or FLOAT)
    return indices, values, header.count
