"""Payloads that travel alone, of the codecs of single values: an array to bytes, bytes to an array."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

from . import linear, sign
from .arrays import check_values
from .groups import Groups
from .wire import CodecId, Header, PayloadError, join, split

Values = NDArray[np.float32]


def to_payload(values: Values, bits: int, residual: Values | None = None, seed: int | None = None) -> bytes:
    """The header and body of `values`: docs/compression.md has their format.

    Parameters
    ----------
    values: float32 [n], contiguous, finite, not empty.
    bits: 2 to 8 for evenly spaced levels, 1 for signs.
    residual, seed: as in `linear.encode`; signs know no seed.

    Raises
    ------
    DataError: anything else; with numbers that are not finite, the residual is of no more use.
    """
    count = len(values) if isinstance(values, np.ndarray) and values.ndim == 1 else 1
    check_values(values, count)
    if not count:
        raise DataError("no values: an empty array has no payload")
    groups = Groups.of(count)
    if bits == 1 and seed is None:
        body = sign.encode(values, groups, residual)
    elif bits in linear.BITS:
        body = linear.encode(values, groups, bits, residual, seed)
    else:
        raise DataError(f"bits={bits}, seed={seed}: levels have 2 to 8 bits, and signs 1 and no seed")
    codec = CodecId.SIGN if bits == 1 else CodecId.LINEAR
    return join(Header(codec, bits, count, len(body)), body.tobytes())


def from_payload(payload: bytes) -> Values:
    """The values float32 [n] of what `to_payload` made; PayloadError for other bytes."""
    codec = Header.unpack(payload).codec
    if codec not in (CodecId.LINEAR, CodecId.SIGN):
        raise PayloadError(f"a payload of codec {codec.name}, which holds no codes of single values")
    header, rest = split(payload, codec)
    if header.bits not in ([1] if codec is CodecId.SIGN else linear.BITS):
        raise PayloadError(f"a payload of codec {codec.name} with {header.bits} bits a value")
    if header.count * header.bits > 8 * header.body:
        raise PayloadError(f"a payload of {header.body} bytes that should hold {header.count} values")
    body, groups = np.frombuffer(rest, np.uint8), Groups.of(header.count)
    out = np.empty(header.count, np.float32)
    if codec is CodecId.SIGN:
        sign.decode(body, groups, out)
    else:
        linear.decode(body, groups, header.bits, out)
    return out
