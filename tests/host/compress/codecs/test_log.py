"""Levels of logarithms: the textbook's bytes, the nearest level, and residuals that say the rest."""

import json

import numpy as np
import pytest
from tests.helpers import log_codec_textbook as textbook
from tests.helpers.places import GOLDEN

from bitlane.compress.codecs import log
from bitlane.compress.codecs.groups import Groups
from bitlane.compress.codecs.wire import PayloadError
from bitlane.errors import DataError

GOLDEN_CASES = json.loads((GOLDEN / "log_codec.json").read_text())
BITS = range(2, 9)


def ragged(rng):
    """Groups of columns, and values of scales far apart among them, some exactly zero."""
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
def test_bytes_are_the_textbooks(bits, seed):
    rng = np.random.default_rng(seed)
    groups, values = ragged(rng)
    alpha = float(10 ** rng.uniform(-3, 4))
    body = log.encode(values, groups, bits, alpha)
    assert body.tobytes() == textbook.body(values, groups.lengths.tolist(), bits, alpha)
    assert len(body) == log.body_bytes(groups, bits)


@pytest.mark.parametrize("bits", BITS)
def test_the_level_is_the_nearest_in_value(bits, seed):
    """Against all levels; a float32 of the scale is what rounding may add."""
    groups, values = ragged(np.random.default_rng(seed))
    found = decoded(log.encode(values, groups, bits, 10.0), groups, bits, 10.0).astype(np.float64)
    scale = np.repeat(np.maximum.reduceat(np.abs(values), groups.starts[:-1]), groups.lengths).astype(np.float64)
    levels = np.array([float(level) for level in textbook.magnitudes(bits, 10.0)])
    levels = np.concatenate([-levels[:0:-1], levels])
    best = np.abs(values[:, None] - scale[:, None] * levels).min(axis=1)
    assert (np.abs(values - found) <= best + 2.0**-23 * scale).all()


@pytest.mark.parametrize("bits", BITS)
def test_half_way_goes_down(bits):
    levels = [float(level) for level in textbook.magnitudes(bits, 10.0)]
    middles = ((np.array(levels[:-1]) + levels[1:]) / 2).astype(np.float32)
    values = np.concatenate([[1], middles, -middles, np.nextafter(middles, np.float32(1))]).astype(np.float32)
    groups = Groups.of(len(values))
    found = decoded(log.encode(values, groups, bits, 10.0), groups, bits, 10.0)
    lower, upper = np.array(levels[:-1], np.float32), np.array(levels[1:], np.float32)
    assert np.array_equal(found, np.concatenate([[1], lower, -lower, upper]).astype(np.float32))


def test_the_largest_zero_and_levels_come_back_as_they_are(seed):
    rng = np.random.default_rng(seed)
    groups = Groups.of(255)
    values = log.levels(8, 10.0)[rng.permutation(255)] * np.float32(0.375)
    assert np.array_equal(decoded(log.encode(values, groups, 8, 10.0), groups, 8, 10.0), values)
    assert {0.375, 0.0, -0.375} <= set(values.tolist())


def test_small_values_keep_more_than_on_even_levels(seed):
    """What the logarithm is for: an error of a value a hundredth of the scale."""
    values = np.random.default_rng(seed).uniform(0, 0.02, 512).astype(np.float32)
    values[0] = 1
    groups = Groups.of(512)
    error = {
        alpha: np.abs(decoded(log.encode(values, groups, 8, alpha), groups, 8, alpha) - values).mean()
        for alpha in (1e-6, 10.0, 100.0)
    }
    assert error[100.0] < 0.5 * error[10.0] < 0.25 * error[1e-6]


@pytest.mark.parametrize("bits", BITS)
def test_the_residual_is_what_the_codes_do_not_say(bits, seed):
    rng = np.random.default_rng(seed)
    groups, values = ragged(rng)
    residual = (values * rng.random(groups.count)).astype(np.float32)
    whole = values + residual
    body = log.encode(values, groups, bits, 10.0, residual)
    assert np.array_equal(body, log.encode(whole, groups, bits, 10.0))
    assert np.array_equal(residual, whole - decoded(body, groups, bits, 10.0))


def test_decoding_adds_or_writes(seed):
    groups, values = ragged(np.random.default_rng(seed))
    body = log.encode(values, groups, 4, 10.0)
    out = np.ones(groups.count, np.float32)
    log.decode(body, groups, 4, 10.0, out, add=True)
    assert np.array_equal(out, 1 + decoded(body, groups, 4, 10.0))


def test_columns_do_not_share_a_scale():
    """A column of small values beside one of large ones."""
    values = np.repeat(np.float32([1e6, 1e-6]), 10)
    groups = Groups.of(10, 10)
    assert np.array_equal(decoded(log.encode(values, groups, 2, 10.0), groups, 2, 10.0), values)


def test_nothing_and_next_to_nothing():
    assert len(log.encode(np.zeros(0, np.float32), Groups.of(), 8, 10.0)) == 0
    tiny = np.full(3, 2.0**-120, np.float32)
    assert not decoded(log.encode(tiny, Groups.of(3), 8, 10.0), Groups.of(3), 8, 10.0).any()


@pytest.mark.parametrize(("bits", "alpha"), [(1, 10.0), (9, 10.0), (8, 0.0), (8, -1.0), (8, np.inf), (8, np.nan)])
def test_settings_that_make_no_levels(bits, alpha):
    with pytest.raises(DataError, match="bits=" if bits != 8 else "alpha="):
        log.check(bits, alpha)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.arange(4), "values are int64"),
        (np.ones(3, np.float32), r"the shape \(3,\), and their groups \(4,\)"),
        (np.ones(8, np.float32)[::2], "not contiguous"),
        (np.float32([1, 2, np.nan, 4]), "group 0 of the values has a NaN"),
        (np.float32([3e38, np.inf, 0, 0]), "group 0 of the values has a NaN or an infinity"),
    ],
)
def test_values_that_are_no_values(values, message):
    with pytest.raises(DataError, match=message):
        log.encode(values, Groups.of(4), 8, 10.0)


def test_a_body_cut_short():
    body = log.encode(np.ones(4, np.float32), Groups.of(4), 8, 10.0)
    with pytest.raises(PayloadError, match="cut"):
        log.decode(body[:-1], Groups.of(4), 8, 10.0, np.empty(4, np.float32))
