"""The random words of random rounding equal the textbook, are uniform and uncorrelated; the rounding is unbiased."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import sgd_textbook as textbook

from bitlane.contract import prng as randomness
from bitlane.contract.fixed_point import round_at_random
from bitlane.contract.prng import SEED_STEP

BATCHES, PLACES = 8_000, 3
WORST = 6.5  # limit in standard errors, for the largest of about 20,000 numbers; the largest observed is 5
LANES = np.concatenate([randomness.model_lanes(), randomness.scaled_gradient_lanes(8)])


def test_words_equal_the_textbook(seed):
    rng = np.random.default_rng(seed)
    for start in (0, (1 << 32) - 1, int(rng.integers(1 << 32))):
        first = int(rng.integers(1 << 24))
        words = randomness.random_words(start, range(first, first + 3), LANES)
        expected = [[textbook.random_word(start, first + i, lane) for lane in range(len(LANES))] for i in range(3)]
        assert words.tolist() == expected


def test_seed_after_some_batches(seed):
    assert randomness.after_batches(seed, 3) == (seed + 3 * SEED_STEP) % 2**32


@pytest.mark.parametrize("bits", [1, 4, 12, 27])
def test_words_are_uniform_and_uncorrelated(seed, bits):
    """Checks the low bits: means, and correlations between lanes, places and up to three batches apart."""
    rng = np.random.default_rng(seed)
    start, first = int(rng.integers(1 << 32)), int(rng.integers(1 << 10))
    below = np.uint32((1 << bits) - 1)
    words = np.empty((BATCHES, PLACES, len(LANES)), np.uint32)
    for batch in range(BATCHES):
        now = randomness.after_batches(start, batch)
        words[batch] = randomness.random_words(now, range(first, first + PLACES), LANES) & below
    values = words.reshape(BATCHES, -1).astype(np.float64)
    values = (values - below / 2) / np.sqrt((4.0**bits - 1) / 12)
    assert np.abs(values.mean(axis=0)).max() * np.sqrt(BATCHES) < WORST
    for apart in (0, 1, 2, 3):
        correlation = values[apart:].T @ values[: BATCHES - apart] / BATCHES
        if not apart:
            np.fill_diagonal(correlation, 0)
        assert np.abs(correlation).max() * np.sqrt(BATCHES) < WORST, f"{apart} batches apart"


def test_rounding_is_unbiased(seed):
    """The mean over all random words of a cut is the number itself, and every result is on the grid."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-(1 << 31), 1 << 31, 50)
    for cut in (1, 5, 12):
        words = np.arange(1 << cut, dtype=np.uint32) | np.uint32(int(rng.integers(1 << 19)) << 12)
        rounded = round_at_random(numbers[:, None], words, cut)
        assert (rounded % (1 << cut) == 0).all() and (np.abs(rounded - numbers[:, None]) < 1 << cut).all()
        assert (rounded.sum(axis=1) == numbers << cut).all()
    assert round_at_random(numbers, np.uint32([~0 & 0xFFFFFFFF]), 0).tolist() == numbers.tolist()
