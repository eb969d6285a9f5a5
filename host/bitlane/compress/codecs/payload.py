"""Stand-alone payloads of the linear and sign codecs: an array to bytes, bytes to an array."""

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
    """Encode values as a header and a body; docs/compression.md specifies the format.

    Parameters
    ----------
    values : float32 [n]
        Contiguous, finite, not empty.
    bits : int
        2 to 8 for uniform levels, 1 for signs.
    residual, seed
        As in `linear.encode`; signs take no seed.

    Raises
    ------
    DataError
        For other input. If a number is not finite, the residual is then invalid.

    Examples
    --------
    >>> values = np.float32([0.5, -1.0, 0.25])
    >>> payload = to_payload(values, bits=8)
    >>> len(payload), from_payload(payload).round(2).tolist()
    (39, [0.5, -1.0, 0.25])
    """
    count = len(values) if isinstance(values, np.ndarray) and values.ndim == 1 else 1
    check_values(values, count)
    if not count:
        raise DataError("values is an empty array; a payload needs at least one value")
    groups = Groups.of(count)
    if bits == 1 and seed is None:
        body = sign.encode(values, groups, residual)
    elif bits in linear.BITS:
        body = linear.encode(values, groups, bits, residual, seed)
    else:
        raise DataError(f"bits={bits}, seed={seed}: uniform levels need 2 to 8 bits; signs need 1 bit and no seed")
    codec = CodecId.SIGN if bits == 1 else CodecId.LINEAR
    return join(Header(codec, bits, count, len(body)), body.tobytes())


def from_payload(payload: bytes) -> Values:
    """Decode what `to_payload` returned, float32 [n]; raise PayloadError for other bytes."""
    codec = Header.unpack(payload).codec
    if codec not in (CodecId.LINEAR, CodecId.SIGN):
        raise PayloadError(f"payload has codec {codec.name}; only LINEAR and SIGN payloads have a code per value")
    header, rest = split(payload, codec)
    if header.bits not in ([1] if codec is CodecId.SIGN else linear.BITS):
        raise PayloadError(f"payload has codec {codec.name} with {header.bits} bits a value")
    if header.count * header.bits > 8 * header.body:
        raise PayloadError(f"payload of {header.body} bytes is too short for {header.count} values")
    body, groups = np.frombuffer(rest, np.uint8), Groups.of(header.count)
    out = np.empty(header.count, np.float32)
    if codec is CodecId.SIGN:
        sign.decode(body, groups, out)
    else:
        linear.decode(body, groups, header.bits, out)
    return out
