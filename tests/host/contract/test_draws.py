"""The random words of draws equal the textbook, are uniform, and have no correlation that training can see."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import encode_textbook as textbook

from bitlane.contract import draws
from bitlane.contract.draws import GROUP_SETS, DrawSet, draw_words, row_words

WORST = 6.5  # limit in standard errors, for the largest of some 10,000 to a million numbers
SMALL = 0.006  # limit for correlations of features, which measurement with more words puts at 0.004
LAGS = 2048


def halves(words):
    """Return both uniform numbers of words, with mean 0 and variance 1."""
    spread = np.sqrt((4.0**16 - 1) / 12)
    return [(half - 32767.5) / spread for half in (words >> np.uint32(16), words & np.uint32(0xFFFF))]


def bits_of(words):
    """Return the bits of words [n] as -1 and 1: [32, n]."""
    return (words >> np.arange(32, dtype=np.uint32)[:, None] & np.uint32(1)) * np.float32(2) - 1


def draws_of(words):
    """Return the draws of 15 thresholds from both halves of words [n], with mean 0 and variance 1: [30, n]."""
    share = np.arange(1, 16)[:, None] / 16
    drawn = [half < share * 65536 for half in (words >> np.uint32(16), words & np.uint32(0xFFFF))]
    return np.concatenate([(each - share) / np.sqrt(share * (1 - share)) for each in drawn], dtype=np.float32)


def worst_correlation(first, second):
    """Return the largest correlation of functions of words [n] with functions of other words, in standard errors."""
    return float(np.abs(first @ second.T).max() / np.sqrt(first.shape[1]))


def test_words_equal_the_textbook(seed):
    rng = np.random.default_rng(seed)
    for start in (0, (1 << 32) - 1, int(rng.integers(1 << 32))):
        first = int(rng.integers(1 << 24))
        words = draw_words(row_words(start, range(first, first + 3)), 50)
        assert words.dtype == np.uint32
        assert words.tolist() == [[textbook.draw_word(start, first + i, j) for j in range(50)] for i in range(3)]


def words_of_sets(seed, sets, count=200):
    """Return the words of the first sets of a group for some values: [sets, count]."""
    words = draw_words(row_words(seed % 2**32, range(count)), 1)[:, 0]
    return np.array([words ^ DrawSet(seed % 2**32, index).mask for index in range(sets)])


def test_masks_equal_the_textbook():
    masks = [DrawSet(0, index).mask for index in range(GROUP_SETS)]
    assert {type(mask) for mask in masks} == {np.uint32} and len(set(masks)) == GROUP_SETS == 16
    assert masks == [textbook.strata(index) for index in range(GROUP_SETS)]


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 1), (2, 2), (4, 2), (4, 4)])
def test_the_first_sets_of_a_group_are_stratified(seed, first, second):
    """Each pair of strata comes once; the numbers inside the strata are those of the first set."""
    words = words_of_sets(seed, first * second)
    assert ((words ^ words[0]) & np.uint32(0x3FFF3FFF) == 0).all()
    for of_value in words.T:
        strata = {(int(word) >> 16) * first >> 16 << 2 | (int(word) & 0xFFFF) * second >> 16 for word in of_value}
        assert len(strata) == first * second


@pytest.mark.parametrize(("first", "second"), [(2, 2), (4, 2), (4, 4)])
def test_the_means_over_sets_factorise(seed, first, second):
    """At every threshold both mean draws are within a stratum of it, and the mean product is the product of means."""
    thresholds = np.arange(0, 65537)[:, None]
    for words in words_of_sets(seed, first * second, 6).T:
        upper, lower = words >> np.uint32(16) < thresholds, words & np.uint32(0xFFFF) < thresholds
        for drawn, strata in ((upper, first), (lower, second)):
            error = drawn.sum(axis=1) * 65536 - thresholds[:, 0] * len(words)
            assert np.abs(error).max() < 65536 * len(words) // strata
        assert np.array_equal((upper & lower).sum(axis=1) * len(words), upper.sum(axis=1) * lower.sum(axis=1))


def test_words_of_rows_are_all_different(seed):
    assert len(np.unique(row_words(seed % 2**32, range(100_000)))) == 100_000


@pytest.mark.parametrize("features", [1, 90, 1000])
def test_words_are_uniform(seed, features):
    """Chi-square of the high and low byte of each half, and of both draws together."""
    rows = 2_000_000 // features
    words = draw_words(row_words(seed % 2**32, range(rows)), features).ravel()
    together = words >> np.uint32(28) << np.uint32(4) | words >> np.uint32(12) & np.uint32(15)
    for bytes_ in (together, *(words >> np.uint32(8 * k) & np.uint32(255) for k in range(4))):
        counts = np.bincount(bytes_, minlength=256)
        expected = len(words) / 256
        assert abs(((counts - expected) ** 2 / expected).sum() - 255) < 6 * np.sqrt(2 * 255)


def test_both_draws_of_a_value_are_independent(seed):
    """The product of both, on which double sampling depends, and all pairs of bits and thresholds."""
    words = draw_words(row_words(seed % 2**32, range(1000)), 300).ravel()
    first, second = halves(words)
    assert abs((first * second).mean()) * np.sqrt(len(words)) < 5
    bits, drawn = bits_of(words), draws_of(words)
    assert worst_correlation(bits[:16], bits[16:]) < WORST and worst_correlation(drawn[:15], drawn[15:]) < WORST


def largest_correlations(seed):
    words = draw_words(row_words(seed % 2**32, range(600)), 2 * LAGS)
    spectra = [np.fft.rfft(half, 4 * LAGS, axis=1) for half in halves(words)]
    pairs = len(words) * (2 * LAGS - np.arange(LAGS))
    for one in spectra:
        for other in spectra:
            sums = np.fft.irfft((one.conj() * other).sum(axis=0))[:LAGS]
            yield float(np.abs(sums / pairs)[1:].max())


def test_features_are_uncorrelated_at_all_lags(seed):
    assert max(largest_correlations(seed)) < SMALL


def lag_correlations(seed, lags, rows=1 << 17):
    of_rows = row_words(seed % 2**32, range(rows))
    first = draws_of(draw_words(of_rows, 1)[:, 0])
    for lag in lags:
        shifted = of_rows + draws.feature_offsets(lag + 1)[-1:]
        yield lag, worst_correlation(first, draws_of(draw_words(shifted, 1)[:, 0]))


def test_draws_of_features_are_uncorrelated(seed):
    some = np.random.default_rng(seed).integers(1, LAGS + 1, 40).tolist()
    for lag, worst in lag_correlations(seed, [1, 2, 3, 4, *some]):
        assert worst < WORST, f"{lag} features apart"


@pytest.mark.slow
def test_draws_of_features_are_uncorrelated_at_all_lags(seed):
    for lag, worst in lag_correlations(seed, range(1, LAGS + 1)):
        assert worst < WORST, f"{lag} features apart"


def test_one_round_less_would_be_too_few(seed, monkeypatch):
    monkeypatch.setattr(draws, "DRAW_ROUNDS", draws.DRAW_ROUNDS - 1)
    assert max(largest_correlations(seed)) > 3 * SMALL


def test_rows_and_sets_are_uncorrelated(seed):
    """Neighbours and rows ``2**k`` apart of one set, and the same rows of other sets."""
    rng, rows, features = np.random.default_rng(seed), 1000, 80
    start, first = int(rng.integers(1 << 32)), int(rng.integers(1 << 20))

    def functions(start, first):
        words = draw_words(row_words(start, range(first, first + rows)), features).ravel()
        return np.concatenate([bits_of(words), draws_of(words)])

    here = functions(start, first)
    for apart in (1, 2, 3, 4, 8, 64, 1 << 10, 1 << 16, 1 << 20):
        assert worst_correlation(here, functions(start, first + apart)) < WORST, f"{apart} rows apart"
    for other in (start ^ 1, start + 1 & 0xFFFFFFFF, start ^ 1 << 31, int(rng.integers(1 << 32))):
        assert worst_correlation(here, functions(other, first)) < WORST, f"set {other}"


@pytest.mark.parametrize("planted", ["equal", "alternating", "slow", "random"])
def test_dot_products_have_the_variance_of_the_theory(seed, planted):
    """A weighted sum of draws has the variance of independent ones: sum of w^2 p (1 - p)."""
    rng, rows, features = np.random.default_rng(seed), 20_000, 700
    place = np.arange(features)
    weights = {
        "equal": np.ones(features),
        "alternating": (-1.0) ** place,
        "slow": np.cos(place / features * 2 * np.pi),
        "random": rng.normal(size=features),
    }[planted]
    words = draw_words(row_words(seed % 2**32, range(rows)), features)
    for thresholds in (np.full(features, int(rng.integers(1000, 64_000))), rng.integers(0, 65537, features)):
        share = thresholds / 65536
        theory = (weights**2 * share * (1 - share)).sum()
        sums = [(half < thresholds) @ weights - weights @ share for half in (words >> 16, words & 0xFFFF)]
        for one in sums:
            assert abs(one.mean()) < 5 * np.sqrt(theory / rows)
            assert abs((one**2).mean() / theory - 1) < 6 * np.sqrt(2 / rows)
        assert abs((sums[0] * sums[1]).mean() / theory) < 6 / np.sqrt(rows)
