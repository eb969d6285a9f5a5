"""The wire format of gradients: a header of 32 bytes, then a body whose format the header's codec defines.

All implementations (numpy, numba, Triton) produce the same bytes. docs/compression.md specifies the bodies.
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
    """Bytes that are not a payload, or not one that this version reads."""


class CodecId(IntEnum):
    """The format of a body."""

    FLOAT = 0  # float32, uncompressed
    LINEAR = 1  # groups of values on uniform levels
    SIGN = 2  # groups of signs with their mean magnitude
    LOG = 3  # groups of values on logarithmic levels
    SPARSE = 4  # indices, then values
    MIXED = 5  # by the bits: linear, bfloat16 or float32


class Flag(IntFlag):
    """What a rank reports about its step."""

    NOT_FINITE = 1  # its gradient has a NaN or an infinity
    FAILED = 2  # it raised an error and takes no part in the step
    LARGE = 4  # its gradient has a value that is finite, but too large for the squares of a codec


NO_FLAGS = Flag(0)
_UNKNOWN_FLAGS = 8


@dataclass(frozen=True)
class Header:
    """The header of a body; ranks exchange it before the body.

    Attributes
    ----------
    codec : CodecId
        Format of the body.
    bits : int
        Bits a value; 0 for codecs without a width.
    count : int
        Values that the body encodes.
    body : int
        Bytes of the body.
    flags : Flag
    settings_crc : int
        CRC-32 of the settings that ranks compare; 0 in a stand-alone payload.
    step : int
        Number of the step, modulo 2**32.
    """

    codec: CodecId
    bits: int
    count: int
    body: int
    flags: Flag = NO_FLAGS
    settings_crc: int = 0
    step: int = 0

    def pack(self) -> bytes:
        """Return the header's 32 bytes."""
        return _FIELDS.pack(
            MAGIC, VERSION, self.codec, self.bits, self.flags, self.settings_crc, self.step, self.count, self.body
        )

    @classmethod
    def unpack(cls, data: bytes) -> Header:
        """Read the header at the start of `data`; raise PayloadError if there is no header of this version."""
        if len(data) < HEADER_BYTES:
            raise PayloadError(f"payload has {len(data)} bytes; the header needs {HEADER_BYTES}")
        magic, version, codec, bits, flags, settings, step, count, body = _FIELDS.unpack(data[:HEADER_BYTES])
        if magic != MAGIC:
            raise PayloadError(f"not a bitlane payload: it begins with {magic!r} instead of {MAGIC!r}")
        if version != VERSION:
            raise PayloadError(f"payload has wire version {version}; this bitlane reads {VERSION}: update the older")
        if flags >= _UNKNOWN_FLAGS:
            raise PayloadError(f"payload has unknown flags {flags}")
        try:
            return cls(CodecId(codec), bits, count, body, Flag(flags), settings, step)
        except ValueError as error:
            raise PayloadError(f"payload has unknown codec {codec}") from error


def join(header: Header, body: bytes) -> bytes:
    """Return a stand-alone payload."""
    return header.pack() + body


def split(payload: bytes, codec: CodecId) -> tuple[Header, memoryview]:
    """Return header and body of a payload of `codec`; raise PayloadError for another codec or another length."""
    header = Header.unpack(payload)
    if header.codec is not codec:
        raise PayloadError(f"payload has codec {header.codec.name} instead of {codec.name}")
    body = memoryview(payload)[HEADER_BYTES:]
    if len(body) != header.body:
        raise PayloadError(f"body has {len(body)} bytes; the header says {header.body}")
    return header, body
