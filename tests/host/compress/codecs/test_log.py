"""Logarithmic levels: the textbook's bytes, the nearest level, and residuals equal to the quantization error."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.helpers import log_codec_textbook as textbook
from tests.helpers.places import GOLDEN
from tests.helpers.properties import FLOATS, SEEDS, share

from bitlane.compress.codecs import log
from bitlane.compress.codecs.groups import Groups
from bitlane.compress.codecs.wire import PayloadError
from bitlane.errors import DataError

GOLDEN_CASES = json.loads((GOLDEN / "log_codec.json").read_text())
BITS = range(2, 9)


def ragged(rng):
    """Groups of columns with scales that differ by up to 40 decades; some values are exactly zero."""
    groups = Groups.of(*rng.integers(1, 700, 6).tolist())
    scales = np.repeat(10.0 ** rng.uniform(-20, 20, len(groups)), groups.lengths)
    values = rng.laplace(size=groups.count) * scales * (rng.random(groups.count) > 0.1)
    return groups, values.astype(np.float32)


def decoded(body, groups, bits, alpha):
    out = np.empty(groups.count, np.float32)
    log.decode(body, groups, bits, alpha, out)
    return out


@pytest.mark.parametrize("case", GOLDEN_CASES, ids=lambda case: f"{case['bits']} bits")
def test_golden_vectors(case):
    groups, bits, alpha = Groups(np.array(case["lengths"])), case["bits"], case["alpha"]
    values = np.frombuffer(bytes.fromhex(case["values"]), "<f4")
    body = log.encode(values, groups, bits, alpha)
    assert body.tobytes().hex() == case["body"]
    expected = textbook.decoded(body.tobytes(), case["lengths"], bits, alpha)
    assert np.array_equal(decoded(body, groups, bits, alpha), expected)


@pytest.mark.parametrize("bits", BITS)
@share(1 / 800)
@given(SEEDS, st.floats(1e-3, 1e4))
def test_bytes_are_the_textbooks(bits, data_seed, alpha):
    groups, values = ragged(np.random.default_rng(data_seed))
    body = log.encode(values, groups, bits, alpha)
    assert body.tobytes() == textbook.body(values, groups.lengths.tolist(), bits, alpha)
    assert len(body) == log.body_bytes(groups, bits)


@given(arrays(np.float32, st.integers(1, 600), elements=FLOATS), st.sampled_from(BITS))
def test_the_level_is_the_nearest_in_value(values, bits):
    """Compared with all levels; rounding to float32 may add 2**-23 of the scale."""
    groups = Groups.of(len(values))
    found = decoded(log.encode(values, groups, bits, 10.0), groups, bits, 10.0).astype(np.float64)
    scale = np.repeat(np.maximum.reduceat(np.abs(values), groups.starts[:-1]), groups.lengths).astype(np.float64)
    levels = np.array([float(level) for level in textbook.magnitudes(bits, 10.0)])
    levels = np.concatenate([-levels[:0:-1], levels])
    best = np.abs(values[:, None] - scale[:, None] * levels).min(axis=1)
    assert (np.abs(values - found) <= np.where(scale < 2.0**-100, scale, best + 2.0**-23 * scale)).all()


@pytest.mark.parametrize("bits", BITS)
def test_halfway_rounds_down(bits):
    levels = [float(level) for level in textbook.magnitudes(bits, 10.0)]
    middles = ((np.array(levels[:-1]) + levels[1:]) / 2).astype(np.float32)
    values = np.concatenate([[1], middles, -middles, np.nextafter(middles, np.float32(1))]).astype(np.float32)
    groups = Groups.of(len(values))
    found = decoded(log.encode(values, groups, bits, 10.0), groups, bits, 10.0)
    lower, upper = np.array(levels[:-1], np.float32), np.array(levels[1:], np.float32)
    assert np.array_equal(found, np.concatenate([[1], lower, -lower, upper]).astype(np.float32))


def test_values_on_levels_survive_unchanged(seed):
    rng = np.random.default_rng(seed)
    groups = Groups.of(255)
    values = log.levels(8, 10.0)[rng.permutation(255)] * np.float32(0.375)
    assert np.array_equal(decoded(log.encode(values, groups, 8, 10.0), groups, 8, 10.0), values)
    assert {0.375, 0.0, -0.375} <= set(values.tolist())


def test_small_values_are_more_accurate_than_on_uniform_levels(seed):
    """The mean error of values below a fiftieth of the scale falls as alpha grows."""
    values = np.random.default_rng(seed).uniform(0, 0.02, 512).astype(np.float32)
    values[0] = 1
    groups = Groups.of(512)
    error = {
        alpha: np.abs(decoded(log.encode(values, groups, 8, alpha), groups, 8, alpha) - values).mean()
        for alpha in (1e-6, 10.0, 100.0)
    }
    assert error[100.0] < 0.5 * error[10.0] < 0.25 * error[1e-6]


@pytest.mark.parametrize("bits", BITS)
def test_the_residual_is_the_quantization_error(bits, seed):
    rng = np.random.default_rng(seed)
    groups, values = ragged(rng)
    residual = (values * rng.random(groups.count)).astype(np.float32)
    total = values + residual
    body = log.encode(values, groups, bits, 10.0, residual)
    assert np.array_equal(body, log.encode(total, groups, bits, 10.0))
    assert np.array_equal(residual, total - decoded(body, groups, bits, 10.0))


def test_decoding_adds_or_writes(seed):
    groups, values = ragged(np.random.default_rng(seed))
    body = log.encode(values, groups, 4, 10.0)
    out = np.ones(groups.count, np.float32)
    log.decode(body, groups, 4, 10.0, out, add=True)
    assert np.array_equal(out, 1 + decoded(body, groups, 4, 10.0))


def test_columns_do_not_share_a_scale():
    """A column of small values next to one of large values."""
    values = np.repeat(np.float32([1e6, 1e-6]), 10)
    groups = Groups.of(10, 10)
    assert np.array_equal(decoded(log.encode(values, groups, 2, 10.0), groups, 2, 10.0), values)


def test_empty_vectors_and_tiny_values():
    assert len(log.encode(np.zeros(0, np.float32), Groups.of(), 8, 10.0)) == 0
    tiny = np.full(3, 2.0**-120, np.float32)
    assert not decoded(log.encode(tiny, Groups.of(3), 8, 10.0), Groups.of(3), 8, 10.0).any()


@pytest.mark.parametrize(("bits", "alpha"), [(1, 10.0), (9, 10.0), (8, 0.0), (8, -1.0), (8, np.inf), (8, np.nan)])
def test_invalid_settings_are_refused(bits, alpha):
    with pytest.raises(DataError, match="bits=" if bits != 8 else "alpha="):
        log.check(bits, alpha)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.arange(4), "values are int64"),
        (np.ones(3, np.float32), r"have shape \(3,\); their groups need \(4,\)"),
        (np.ones(8, np.float32)[::2], "not contiguous"),
        (np.float32([1, 2, np.nan, 4]), "group 0 of the values has a NaN"),
        (np.float32([3e38, np.inf, 0, 0]), "group 0 of the values has a NaN or an infinity"),
    ],
)
def test_other_arrays_are_refused(values, message):
    with pytest.raises(DataError, match=message):
        log.encode(values, Groups.of(4), 8, 10.0)


def test_a_truncated_body_is_refused():
    body = log.encode(np.ones(4, np.float32), Groups.of(4), 8, 10.0)
    with pytest.raises(PayloadError, match="it is truncated"):
        log.decode(body[:-1], Groups.of(4), 8, 10.0, np.empty(4, np.float32))
