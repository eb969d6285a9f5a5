"""Uniform levels and signs, in numpy and compiled: the textbook's bytes, round trips, and errors for bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.helpers import codec_textbook as textbook
from tests.helpers.properties import SEEDS, WORDS, runs, share

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
    """Groups of every size, with ties, zeros of both signs, denormal and huge values."""
    groups = Groups.of(*runs)
    parts = []
    for number, length in enumerate(groups.lengths.tolist()):
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
        parts.append(np.where(rng.random(length) < 0.1, -0.0 if number % 2 else 0.0, values))
    return groups, np.concatenate([*parts, []]).astype(np.float32)


def ranges(groups):
    return [range(begin, end) for begin, end in itertools.pairwise(groups.starts.tolist())]


@pytest.mark.parametrize("bits", WIDTHS)
@share(1 / 800)
@given(SEEDS, runs(700, most=4), st.booleans(), st.none() | WORDS)
def test_bytes_are_the_textbooks(loops, bits, data_seed, lengths, feedback, draw_seed):
    rng = np.random.default_rng(data_seed)
    groups, values = drawn(rng, lengths, bits)
    residual = (values * 0.01 * rng.normal(size=len(values))).astype(np.float32) if feedback else None
    draw_seed = None if bits == 1 else draw_seed
    body, error = textbook.encode(
        list(values), ranges(groups), bits, None if residual is None else list(residual), draw_seed
    )
    assert encode(values, groups, bits, residual, draw_seed).tobytes() == body
    if residual is not None:
        assert residual.tobytes() == np.array(error, np.float32).tobytes()
    out = np.empty(len(values), np.float32)
    decode(np.frombuffer(body, np.uint8), groups, bits, out)
    assert out.tobytes() == np.array(textbook.decode(body, ranges(groups), bits), np.float32).tobytes()


@share(1 / 400)
@given(SEEDS, runs(3000, most=2), st.booleans(), st.none() | WORDS)
def test_groups_with_different_bits_have_the_textbooks_bytes(loops, data_seed, lengths, feedback, draw_seed):
    rng = np.random.default_rng(data_seed)
    groups, values = drawn(rng, lengths, 4)
    widths = rng.choice([rng.integers(2, 9), 2, 3, 8], len(groups)).astype(np.uint8)
    residual = (values * 0.01 * rng.normal(size=len(values))).astype(np.float32) if feedback else None
    kept = None if residual is None else list(residual)
    body, error = textbook.encode(list(values), ranges(groups), widths.tolist(), kept, draw_seed)
    assert linear.encode(values, groups, widths, residual, draw_seed).tobytes() == body
    if residual is not None:
        assert residual.tobytes() == np.array(error, np.float32).tobytes()
    out = np.empty(len(values), np.float32)
    linear.decode(np.frombuffer(body, np.uint8), groups, widths, out)
    assert out.tobytes() == np.array(textbook.decode(body, ranges(groups), widths.tolist()), np.float32).tobytes()


def test_expected_errors_are_those_of_many_draws(loops, seed):
    rng = np.random.default_rng(seed)
    groups, draws = Groups.of(700, 9), 2000
    values = rng.laplace(size=groups.count).astype(np.float32)
    values[700:] = 0
    for bits, expected in zip((2, 3, 5), linear.expected_errors(values, groups, (2, 3, 5)), strict=True):
        out, errors = np.empty(groups.count, np.float32), []
        for draw in rng.integers(2**32, size=draws).tolist():
            linear.decode(linear.encode(values, groups, bits, None, draw), groups, bits, out)
            errors.append(float(((out - values).astype(np.float64) ** 2).sum()))
        assert abs(np.mean(errors) - expected) < 6 * np.std(errors) / draws**0.5


@given(
    arrays(np.float32, st.integers(1, 600), elements=st.floats(-(2.0**127), 2.0**127, width=32)),
    st.integers(2, 8),
    st.none() | WORDS,
)
def test_a_round_trip_is_off_by_at_most_a_step(values, bits, draw_seed):
    """Half a step to the nearest level, a step with stochastic rounding; the residual is exactly the error."""
    groups, residual, out = Groups.of(len(values)), np.zeros_like(values), np.empty_like(values)
    body = encode(values, groups, bits, residual, draw_seed)
    decode(body, groups, bits, out)
    steps = np.repeat(body[: 4 * len(groups)].view("<f4"), groups.lengths).astype(np.float64)
    tiny = np.repeat(np.maximum.reduceat(np.abs(values), groups.starts[:-1]), groups.lengths) < 2.0**-100
    most = np.where(tiny, 2.0**-100, steps * (0.501 if draw_seed is None else 1.001))
    assert (np.abs(out.astype(np.float64) - values) <= most).all()
    assert np.array_equal(residual, values - out)
    again = np.zeros_like(values)
    decode(encode(out, groups, bits), groups, bits, again)
    assert np.abs(again - out).max() <= 1e-6 * np.abs(out).max()  # decoded values are levels already


@given(arrays(np.float32, st.integers(1, 600), elements=st.floats(-(2.0**99), 2.0**99, width=32)))
def test_a_round_trip_keeps_signs_and_means(values):
    groups, out = Groups.of(len(values)), np.empty_like(values)
    decode(encode(values, groups, 1), groups, 1, out)
    assert ((out > 0) == (values >= 0))[out != 0].all()
    for group in ranges(groups):
        mean = np.abs(values[group.start : group.stop]).mean(dtype=np.float64)
        assert np.abs(out[group.start : group.stop]) == pytest.approx(mean, rel=1e-5, abs=1e-44)


@pytest.mark.skipif(jit.numba() is None, reason="numba is not installed")
@pytest.mark.parametrize("bits", WIDTHS)
@share(1 / 160)
@given(SEEDS, runs(6000, most=8), st.booleans(), st.none() | WORDS, st.booleans())
def test_compiled_loops_and_numpy_agree(monkeypatch, bits, data_seed, lengths, feedback, draw_seed, add):
    rng = np.random.default_rng(data_seed)
    groups, values = drawn(rng, lengths, bits)
    base = rng.normal(size=len(values)).astype(np.float32)
    found = []
    for numba in (jit.numba, lambda: None):
        with monkeypatch.context() as patch:
            patch.setattr(jit, "numba", numba)
            residual, out = (values * 0.01).astype(np.float32) if feedback else None, base.copy()
            body = encode(values, groups, bits, residual, None if bits == 1 else draw_seed)
            decode(body, groups, bits, out, add)
            found.append((body.tobytes(), None if residual is None else residual.tobytes(), out.tobytes()))
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
def test_an_empty_vector_has_an_empty_body(bits, loops):
    empty = np.empty(0, np.float32)
    body = encode(empty, Groups.of(0), bits, empty.copy())
    assert len(body) == 0
    decode(body, Groups.of(0), bits, empty)


@pytest.mark.parametrize("bits", range(2, 9))
def test_stochastic_rounding_has_no_bias(bits, seed, loops):
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
@pytest.mark.parametrize("nonfinite", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused(nonfinite, bits, seed, loops):
    values = np.zeros(1300, np.float32)
    index = int(np.random.default_rng(seed).integers(1300))
    values[index] = nonfinite
    with pytest.raises(DataError, match=f"group {index // 512} of the values has a NaN"):
        encode(values, Groups.of(1300), bits)
    huge = np.full(3, 3e38, np.float32)
    with pytest.raises(DataError, match="group 0"):
        encode(huge, Groups.of(3), bits, huge.copy())


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("change", [-1, 1])
def test_a_body_of_another_length_is_refused(bits, change, loops):
    groups, out = Groups.of(20), np.empty(20, np.float32)
    body = encode(np.ones(20, np.float32), groups, bits)
    with pytest.raises(PayloadError, match="it is truncated, or encodes another vector"):
        decode(np.resize(body, len(body) + change), groups, bits, out)
