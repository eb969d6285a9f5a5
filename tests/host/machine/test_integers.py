"""Single integers: the same words and roundings as the arrays of the contract."""

import numpy as np

from bitlane.contract.fixed_point import round_at_random as round_array_at_random
from bitlane.contract.fixed_point import round_half_up as round_array_half_up
from bitlane.contract.prng import MAX_CUT, model_lanes, random_words


def test_random_words(seed, parts):
    rng = np.random.default_rng(seed)
    start, lanes = int(rng.integers(1 << 32)), model_lanes()
    for first in (0, (1 << 24) - 5):
        indices = range(first, first + 5)
        found = [[parts["random_word"](start, index, int(lane)) for lane in lanes] for index in indices]
        assert found == random_words(start, indices, lanes).tolist()


def test_rounding(seed, parts):
    rng = np.random.default_rng(seed)
    for x in rng.integers(-(1 << 45), 1 << 45, 50):
        n, cut, word = int(rng.integers(40)), int(rng.integers(MAX_CUT + 1)), rng.integers(0, 1 << 32, 1, np.uint32)
        assert parts["round_half_up"](int(x), n) == round_array_half_up(np.array([x]), n)[0]
        expected = round_array_at_random(np.array([x]), word, cut)[0]
        assert parts["round_at_random"](int(x), int(word[0]), cut) == expected
