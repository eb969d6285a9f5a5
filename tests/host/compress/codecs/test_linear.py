"""Evenly spaced levels and signs, in numpy and compiled: the textbook's bytes, and one clear error for bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.helpers import codec_textbook as textbook

from bitlane.compress.codecs import linear, sign
from bitlane.compress.codecs.groups import Groups
from bitlane.compress.codecs.wire import PayloadError
from bitlane.errors import DataError
from bitlane.support import jit

WIDTHS = range(1, 9)
SCALES = [1.0, 1e-30, 2.0**-100, 1e-38, 1e-44, 1e30, 3e38]


def encode(values, groups, bits, residual=None, seed=None):
    if bits == 1:
        return sign.encode(values, groups, residual)
    return linear.encode(values, groups, bits, residual, seed)


def decode(body, groups, bits, out, add=False):
    if bits == 1:
        sign.decode(body, groups, out, add)
    else:
        linear.decode(body, groups, bits, out, add)


def drawn(rng, runs, bits):
    """Values of groups of every size: ties, zeros of both signs, denormal, huge."""
    groups = Groups.of(*runs)
    parts = []
    for place, length in enumerate(groups.lengths.tolist()):
        kind = rng.integers(4)
        values = rng.normal(size=length)
        if kind == 0:
            values = values * SCALES[rng.integers(len(SCALES) - 1)]
        elif kind == 1:  # multiples of half a step
            values = np.append(rng.integers(-254, 255, length - 1) / 2, 127.0)
        elif kind == 2:
            values = values * (rng.random(length) < 0.5) * 1e-44
        elif kind == 3 and bits > 1:
            values = np.clip(values, -1, 1) * 3e38
        parts.append(np.where(rng.random(length) < 0.1, -0.0 if place % 2 else 0.0, values))
    return groups, np.concatenate([*parts, []]).astype(np.float32)


def ranges(groups):
    return [range(begin, end) for begin, end in itertools.pairwise(groups.starts.tolist())]


@pytest.mark.parametrize("bits", WIDTHS)
def test_bytes_are_the_textbooks(bits, seed, loops):
    rng = np.random.default_rng(seed)
    for random, feedback in itertools.product([None, seed], [False, True]):
        groups, values = drawn(rng, rng.integers(0, 700, 4).tolist(), bits)
        residual = (values * 0.01 * rng.normal(size=len(values))).astype(np.float32) if feedback else None
        random = None if bits == 1 else random
        kept = None if residual is None else list(residual)
        body, left = textbook.encode(list(values), ranges(groups), bits, kept, random)
        assert encode(values, groups, bits, residual, random).tobytes() == body
        if residual is not None:
            assert residual.tobytes() == np.array(left, np.float32).tobytes()
        out = np.empty(len(values), np.float32)
        decode(np.frombuffer(body, np.uint8), groups, bits, out)
        assert out.tobytes() == np.array(textbook.decode(body, ranges(groups), bits), np.float32).tobytes()


@pytest.mark.parametrize("bits", WIDTHS)
def test_compiled_loops_and_numpy_agree(bits, seed, monkeypatch):
    if jit.numba() is None:
        pytest.skip("numba is not installed")
    rng = np.random.default_rng(seed)
    for _ in range(20):
        groups, values = drawn(rng, rng.integers(0, 6000, rng.integers(1, 9)).tolist(), bits)
        residual = (values * 0.01).astype(np.float32) if rng.random() < 0.5 else None
        random = int(rng.integers(2**32)) if bits > 1 and rng.random() < 0.5 else None
        base = rng.normal(size=len(values)).astype(np.float32)
        add = bool(rng.random() < 0.5)
        found = []
        for numba in (jit.numba, lambda: None):
            with monkeypatch.context() as patch:
                patch.setattr(jit, "numba", numba)
                kept, out = None if residual is None else residual.copy(), base.copy()
                body = encode(values, groups, bits, kept, random)
                decode(body, groups, bits, out, add)
                found.append((body.tobytes(), None if kept is None else kept.tobytes(), out.tobytes()))
        assert found[0] == found[1]


@pytest.mark.parametrize("bits", WIDTHS)
def test_a_body_may_begin_anywhere_in_memory(bits, seed, loops):
    rng = np.random.default_rng(seed)
    groups, values = drawn(rng, [700], bits)
    body = encode(values, groups, bits)
    aside = np.concatenate([np.zeros(3, np.uint8), body])[3:]
    one, other = np.empty((2, len(values)), np.float32)
    decode(body, groups, bits, one)
    decode(aside, groups, bits, other)
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("bits", WIDTHS)
def test_no_values_have_no_bytes(bits, loops):
    nothing = np.empty(0, np.float32)
    body = encode(nothing, Groups.of(0), bits, nothing.copy())
    assert len(body) == 0
    decode(body, Groups.of(0), bits, nothing)


@pytest.mark.parametrize("bits", range(2, 9))
def test_random_rounding_has_no_bias(bits, seed, loops):
    rng = np.random.default_rng(seed)
    groups, count = Groups.of(512), 2000
    values = rng.uniform(-1, 1, 512).astype(np.float32)
    total, out = np.zeros(512), np.empty(512, np.float32)
    for each in rng.integers(0, 2**32, count).tolist():
        decode(linear.encode(values, groups, bits, None, each), groups, bits, out)
        total += out
    step = np.abs(values).max() / (2 ** (bits - 1) - 1)
    assert np.abs(total / count - values).max() < 5.5 * step / 2 / np.sqrt(count)


BAD = [
    (np.zeros(5, np.int32), "values are int32"),
    (np.zeros(5, np.float64), "values are float64"),
    ([0.0] * 5, "values are list"),
    (np.zeros(6, np.float32), r"shape \(6,\)"),
    (np.zeros((1, 5), np.float32), r"shape \(1, 5\)"),
    (np.zeros(10, np.float32)[::2], "not contiguous"),
]


@pytest.mark.parametrize("bits", [1, 4])
@pytest.mark.parametrize(("values", "message"), BAD, ids=[message for _, message in BAD])
def test_other_arrays_are_refused(values, message, bits, loops):
    groups, good = Groups.of(5), np.zeros(5, np.float32)
    with pytest.raises(DataError, match=message):
        encode(values, groups, bits)
    with pytest.raises(DataError, match=message.replace("values", "residuals")):
        encode(good, groups, bits, values)
    with pytest.raises(DataError, match=message):
        decode(encode(good, groups, bits), groups, bits, values)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(odd, bits, seed, loops):
    values = np.zeros(1300, np.float32)
    place = int(np.random.default_rng(seed).integers(1300))
    values[place] = odd
    with pytest.raises(DataError, match=f"group {place // 512} of the values has a NaN"):
        encode(values, Groups.of(1300), bits)
    huge = np.full(3, 3e38, np.float32)
    with pytest.raises(DataError, match="group 0"):
        encode(huge, Groups.of(3), bits, huge.copy())


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("change", [-1, 1])
def test_a_body_of_another_length_is_refused(bits, change, loops):
    groups, out = Groups.of(20), np.empty(20, np.float32)
    body = encode(np.ones(20, np.float32), groups, bits)
    with pytest.raises(PayloadError, match="it was cut or is another's"):
        decode(np.resize(body, len(body) + change), groups, bits, out)
