"""Headers: every field arrives, and bytes that are no payload are refused in words."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.compress.codecs.wire import HEADER_BYTES, VERSION, CodecId, Flag, Header, PayloadError, join, split


def random_header(seed):
    rng = np.random.default_rng(seed)
    return Header(
        CodecId(int(rng.integers(len(CodecId)))),
        bits=int(rng.integers(9)),
        count=int(rng.integers(2**63)),
        body=int(rng.integers(2**63)),
        flags=Flag(int(rng.integers(4))),
        settings=int(rng.integers(2**32)),
        step=int(rng.integers(2**32)),
    )


def test_a_header_arrives(seed):
    for each in range(100):
        header = random_header([seed, each])
        packed = header.pack()
        assert len(packed) == HEADER_BYTES == 32
        assert Header.unpack(packed + b"body") == header


def test_the_bytes_are_those_of_the_documentation():
    header = Header(CodecId.SPARSE, bits=3, count=5, body=6, flags=Flag.FAILED, settings=0x01020304, step=7)
    numbers = bytes([1, 4, 3, 2]), b"\4\3\2\1", b"\7\0\0\0", b"\5" + bytes(7), b"\6" + bytes(7)
    assert header.pack() == b"BLGC" + b"".join(numbers)


def test_a_payload_is_taken_apart():
    header = Header(CodecId.SIGN, 1, 9, 4)
    found, body = split(join(header, b"abcd"), CodecId.SIGN)
    assert found == header and bytes(body) == b"abcd"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda payload: payload[:31], "32 bytes of header, and this has 31"),
        (lambda payload: payload[:-1], "should have 4 bytes, and has 3"),
        (lambda payload: payload + b"x", "should have 4 bytes, and has 5"),
        (lambda payload: b"GZIP" + payload[4:], "begins with b'GZIP'"),
        (lambda payload: payload[:4] + bytes([VERSION + 1]) + payload[5:], f"wire version {VERSION + 1}"),
        (lambda payload: payload[:5] + bytes([99]) + payload[6:], "unknown codec 99"),
        (lambda payload: payload[:5] + bytes([CodecId.LOG]) + payload[6:], "codec LOG, where SIGN is read"),
        (lambda payload: payload[:7] + bytes([128]) + payload[8:], "unknown flags 128"),
    ],
)
def test_other_bytes_are_refused(change, says):
    payload = join(Header(CodecId.SIGN, 1, 9, 4), b"abcd")
    with pytest.raises(PayloadError, match=says):
        split(change(payload), CodecId.SIGN)
