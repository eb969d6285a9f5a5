"""The wire format of gradients: a header of 32 bytes, then a body that the header's codec explains.

Payloads of every implementation (numpy, compiled, GPU) are the same bytes. docs/compression.md describes the bodies.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from bitlane.errors import DataError

MAGIC = b"BLGC"
VERSION = 1
_FIELDS = struct.Struct("<4sBBBBIIQQ")  # magic, version, codec, bits, flags, settings, step, count, body bytes
HEADER_BYTES = _FIELDS.size


class PayloadError(DataError):
    """Bytes that are no payload, or none that this version can read."""


class CodecId(IntEnum):
    """What explains a body."""

    FLOAT = 0  # float32 as they are
    LINEAR = 1  # groups of values on evenly spaced levels
    SIGN = 2  # groups of signs, with their mean magnitude
    LOG = 3  # groups of values on levels that are dense near zero
    SPARSE = 4  # places, then values


class Flag(IntFlag):
    """What a rank says of a step beside its codec."""

    NOT_FINITE = 1  # its gradient has a NaN or an infinity
    FAILED = 2  # it raised, and takes no part


NO_FLAGS = Flag(0)
_UNKNOWN_FLAGS = 4


@dataclass(frozen=True)
class Header:
    """What stands in front of a body, or goes to all ranks ahead of it.

    Attributes
    ----------
    codec, bits: how the body is coded; bits a value, 0 where that says nothing.
    count: values that the body stands for.
    body: bytes of the body.
    settings: a digest of everything that ranks have to agree on; 0 in a payload that travels alone.
    step: number of the step, modulo 2**32.
    """

    codec: CodecId
    bits: int
    count: int
    body: int
    flags: Flag = NO_FLAGS
    settings: int = 0
    step: int = 0

    def pack(self) -> bytes:
        return _FIELDS.pack(
            MAGIC, VERSION, self.codec, self.bits, self.flags, self.settings, self.step, self.count, self.body
        )

    @classmethod
    def unpack(cls, data: bytes) -> Header:
        """The header that begins `data`; PayloadError where there is none of this version."""
        if len(data) < HEADER_BYTES:
            raise PayloadError(f"a payload begins with {HEADER_BYTES} bytes of header, and this has {len(data)} bytes")
        magic, version, codec, bits, flags, settings, step, count, body = _FIELDS.unpack(data[:HEADER_BYTES])
        if magic != MAGIC:
            raise PayloadError(f"no payload of bitlane: it begins with {magic!r} and not {MAGIC!r}")
        if version != VERSION:
            raise PayloadError(
                f"a payload of wire version {version}, and this bitlane reads {VERSION}: update the older"
            )
        if flags >= _UNKNOWN_FLAGS:
            raise PayloadError(f"a payload with unknown flags {flags}")
        try:
            return cls(CodecId(codec), bits, count, body, Flag(flags), settings, step)
        except ValueError as error:
            raise PayloadError(f"a payload of unknown codec {codec}") from error


def join(header: Header, body: bytes) -> bytes:
    """A payload that travels alone."""
    return header.pack() + body


def split(payload: bytes, codec: CodecId) -> tuple[Header, memoryview]:
    """Header and body of a payload of this codec; PayloadError for another, or one cut short or too long."""
    header = Header.unpack(payload)
    if header.codec is not codec:
        raise PayloadError(f"a payload of codec {header.codec.name}, where {codec.name} is read")
    body = memoryview(payload)[HEADER_BYTES:]
    if len(body) != header.body:
        raise PayloadError(f"a payload whose body should have {header.body} bytes, and has {len(body)}")
    return header, body
