"""Headers: every field survives a round trip, and bytes that are not a payload raise an error that says why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.properties import WORDS

from bitlane.compress.codecs.wire import HEADER_BYTES, VERSION, CodecId, Flag, Header, PayloadError, join, split

COUNTS = st.integers(0, 2**64 - 1)
HEADERS = st.builds(
    Header, st.sampled_from(CodecId), st.integers(0, 8), COUNTS, COUNTS, st.integers(0, 3).map(Flag), WORDS, WORDS
)


@given(HEADERS)
def test_a_header_survives_the_round_trip(header):
    packed = header.pack()
    assert len(packed) == HEADER_BYTES == 32
    assert Header.unpack(packed + b"body") == header


def test_the_bytes_are_those_of_the_documentation():
    header = Header(CodecId.SPARSE, bits=3, count=5, body=6, flags=Flag.FAILED, settings_crc=0x01020304, step=7)
    numbers = bytes([1, 4, 3, 2]), b"\4\3\2\1", b"\7\0\0\0", b"\5" + bytes(7), b"\6" + bytes(7)
    assert header.pack() == b"BLGC" + b"".join(numbers)


def test_a_payload_splits_into_header_and_body():
    header = Header(CodecId.SIGN, 1, 9, 4)
    found, body = split(join(header, b"abcd"), CodecId.SIGN)
    assert found == header and bytes(body) == b"abcd"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda payload: payload[:31], "payload has 31 bytes; the header needs 32"),
        (lambda payload: payload[:-1], "body has 3 bytes; the header says 4"),
        (lambda payload: payload + b"x", "body has 5 bytes; the header says 4"),
        (lambda payload: b"GZIP" + payload[4:], "begins with b'GZIP' instead of b'BLGC'"),
        (lambda payload: payload[:4] + bytes([VERSION + 1]) + payload[5:], f"wire version {VERSION + 1}"),
        (lambda payload: payload[:5] + bytes([99]) + payload[6:], "unknown codec 99"),
        (lambda payload: payload[:5] + bytes([CodecId.LOG]) + payload[6:], "codec LOG instead of SIGN"),
        (lambda payload: payload[:7] + bytes([128]) + payload[8:], "unknown flags 128"),
    ],
)
def test_other_bytes_are_refused(change, message):
    payload = join(Header(CodecId.SIGN, 1, 9, 4), b"abcd")
    with pytest.raises(PayloadError, match=message):
        split(change(payload), CodecId.SIGN)
