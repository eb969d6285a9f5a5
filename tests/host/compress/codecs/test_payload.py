"""Stand-alone payloads: golden bytes, truncated and damaged payloads, and values that have no payload."""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct

import numpy as np
import pytest
from hypothesis import given
from tests.helpers import codec_textbook as textbook
from tests.helpers.properties import damage, damaged, share

from bitlane.compress.codecs.payload import from_payload, to_payload
from bitlane.compress.codecs.wire import HEADER_BYTES, PayloadError
from bitlane.errors import DataError

GOLDEN = json.loads(textbook.GOLDEN_FILE.read_text())
CASES = [pytest.param(case, id=f"{case['bits']} bits, feedback {case['feedback']}") for case in GOLDEN["cases"]]
PAYLOAD = to_payload(np.ones(40, np.float32), 4)


def test_bits_may_be_a_numpy_integer():
    assert to_payload(np.ones(40, np.float32), np.int64(4)) == PAYLOAD


def inputs(case):
    values, residual = (np.frombuffer(bytes.fromhex(GOLDEN[name]), "<f4") for name in ("values", "residual"))
    if case["bits"] == 1:
        values, residual = (np.concatenate([each[:1024], each[1536:]]) for each in (values, residual))
    return values, residual.copy() if case["feedback"] else None


def test_golden_payloads_are_the_textbooks():
    assert json.loads(json.dumps(textbook.golden())) == GOLDEN


@pytest.mark.parametrize("case", CASES)
def test_golden_payloads_are_encoded_and_decoded(case, loops):
    values, residual = inputs(case)
    assert to_payload(values, case["bits"], residual, case["seed"]).hex() == case["payload"]
    if residual is not None:
        assert hashlib.sha256(residual.tobytes()).hexdigest() == case["kept"]
    payload = bytes.fromhex(case["payload"])
    expected = textbook.decode(payload[HEADER_BYTES:], textbook.cut(len(values)), case["bits"])
    assert from_payload(payload).tobytes() == np.array(expected, np.float32).tobytes()


@pytest.mark.parametrize("bits", range(1, 9))
def test_a_payload_truncated_anywhere_is_refused(bits, seed):
    payload = to_payload(np.random.default_rng(seed).normal(size=40).astype(np.float32), bits)
    for end in range(len(payload)):
        with pytest.raises(PayloadError):
            from_payload(payload[:end])
    with pytest.raises(PayloadError):
        from_payload(payload + b"\0")


def changed(payload, offset, kind, value):
    data = bytearray(payload)
    struct.pack_into(kind, data, offset, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("offset", "kind", "value", "message"),
    [
        (0, "<I", 0, "not a bitlane payload"),
        (4, "<B", 2, "wire version 2"),
        (5, "<B", 4, "codec SPARSE; only LINEAR and SIGN payloads have a code per value"),
        (5, "<B", 200, "unknown codec 200"),
        (5, "<B", 2, "codec SIGN with 4 bits"),
        (6, "<B", 9, "codec LINEAR with 9 bits"),
        (6, "<B", 5, "too short for 40 values|it is truncated"),
        (16, "<Q", 38, "it is truncated"),
        (16, "<Q", 2**63, "too short for 9223372036854775808 values"),
        (24, "<Q", 2**63, "the header says 9223372036854775808"),
    ],
)
def test_a_changed_header_is_refused(offset, kind, value, message):
    with pytest.raises(PayloadError, match=message):
        from_payload(changed(PAYLOAD, offset, kind, value))


@share(1 / 8)
@given(damage(len(PAYLOAD)))
def test_a_damaged_payload_is_decoded_or_refused(changes):
    data = damaged(PAYLOAD, changes)
    with contextlib.suppress(PayloadError):
        assert len(from_payload(data)) <= 8 * len(data)


@pytest.mark.parametrize(
    ("values", "bits", "seed", "message"),
    [
        (np.empty(0, np.float32), 4, None, "an empty array"),
        (np.zeros(3, np.int64), 4, None, "int64"),
        (np.float32(1), 4, None, "float32"),
        (np.zeros((2, 2), np.float32), 4, None, "shape"),
        (np.zeros(6, np.float32)[::2], 4, None, "not contiguous"),
        (np.ones(3, np.float32), 0, None, "bits=0"),
        (np.ones(3, np.float32), 9, None, "bits=9"),
        (np.ones(3, np.float32), 1, 5, "seed=5"),
        (np.array([1, np.nan], np.float32), 4, None, "NaN"),
    ],
)
def test_values_without_a_payload_are_refused(values, bits, seed, message):
    with pytest.raises(DataError, match=message):
        to_payload(values, bits, seed=seed)
