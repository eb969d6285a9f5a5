"""Random words equal plain integer arithmetic, are uniform and uncorrelated."""

from __future__ import annotations

import numpy as np

from bitlane.support.hashing import derive_seed, hash_words, lowbias32


def textbook(x):
    """Return the mixed word of x, computed with Python integers."""
    x ^= x >> 16
    x = x * 0x7FEB352D % 2**32
    x ^= x >> 15
    x = x * 0x846CA68B % 2**32
    return x ^ x >> 16


def test_words_equal_plain_integer_arithmetic(seed):
    rng = np.random.default_rng(seed)
    places = rng.integers(0, 2**40, 1000)
    own = int(rng.integers(2**32))
    expected = [textbook((int(place) * 0x9E3779B9 + own) % 2**32) for place in places]
    assert hash_words(own, places).tolist() == expected


def test_mixing_is_injective(seed):
    begin = np.random.default_rng(seed).integers(2**31)
    inputs = np.arange(begin, begin + 2**20).astype(np.uint32)
    assert len(np.unique(lowbias32(inputs))) == len(inputs)


def test_bits_are_uniform_and_neighbours_are_uncorrelated(seed):
    count = 2**18
    drawn = hash_words(seed, np.arange(count))
    bits = np.unpackbits(drawn.view(np.uint8)).reshape(count, 32)
    limit = 6 * np.sqrt(0.25 / count)  # six standard deviations of the mean of fair bits
    assert np.abs(bits.mean(axis=0) - 0.5).max() < limit
    assert np.abs((bits[1:] ^ bits[:-1]).mean(axis=0) - 0.5).max() < limit
    other = np.unpackbits(hash_words(derive_seed(seed, 1), np.arange(count)).view(np.uint8)).reshape(count, 32)
    assert np.abs((bits ^ other).mean(axis=0) - 0.5).max() < limit


def test_seeds_depend_on_every_part_and_its_position():
    seeds = [derive_seed(a, b, c) for a in range(20) for b in range(20) for c in range(20)]
    assert len(set(seeds)) == len(seeds)
    assert derive_seed(1) != derive_seed(1, 0)
