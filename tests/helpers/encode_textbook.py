"""Draws and positions of one value, in Python integers and floats: slow, and as near to the design as can be.

It shares no code with the package; the numbers of the contract are written out on purpose.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
from tests.helpers.sgd_textbook import random_word


def scale_of(span: np.ndarray) -> np.ndarray:
    """The scale of columns that reach `span` from their center: 1 / scale has the first 24 bits of 1 / span."""
    return 1 / (np.asarray(1 / span, np.float64).view(np.uint64) >> 29 << 29).view(np.float64)


def set_seed(seed: int, number: int) -> int:
    return int(np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(1)[0])


def strata(number: int) -> int:
    """The bits of a word that draw set `number` inverts: each of the 4 x 4 strata of both halves once in 16 sets.

    The first half's stratum moves by a half for odd numbers and by a quarter for every other four; so does the second
    half's for every other two and every other eight.
    """
    first = number % 2 * 2 + number // 4 % 2
    second = number // 2 % 2 * 2 + number // 8 % 2
    return first << 30 | second << 14


def draw_word(seed: int, row: int, feature: int) -> int:
    """Five rounds of x, y -> y ^ (x<<<1 & x<<<8) ^ x<<<2 ^ key on the halves of a word of the row plus steps."""
    x, y = divmod((random_word(seed, row, 64) + feature * 0xF28ED069) % 2**32, 2**16)
    for i in range(5):
        turned = [(x * 2**n | x // 2 ** (16 - n)) % 2**16 for n in (1, 8, 2)]
        x, y = y ^ turned[0] & turned[1] ^ turned[2] ^ (i + 1) * 0x9E3779B9 // 2**16 % 2**16, x
    return x * 2**16 + y


def position(x: float, center: float, scale: float, base_bits: int) -> int:
    """Units of 2**-20 of an interval above -1, from a reciprocal of 24 bits."""
    exact, shift = 1 / Fraction(scale), 0
    while exact < 2**23:
        exact, shift = exact * 2, shift + 1
    while exact >= 2**24:
        exact, shift = exact / 2, shift - 1
    multiplier = float(Fraction(round(exact)) / Fraction(2) ** shift * Fraction(2) ** (base_bits + 19))
    offset = floor(2.0 ** (base_bits + 19) - center * multiplier + 0.5)
    return min(max(floor(x * multiplier) + offset, 0), 2 ** (base_bits + 20))


def base_and_draws(place: int, base_bits: int, word: int | None, naive: bool) -> tuple[int, int]:
    """The base code and the draw code of a position; of naive sampling the base code alone."""
    if naive:
        place = min(max(place - 2**19, 0), (2**base_bits - 1) * 2**20)
    code = min(place // 2**20, 2**base_bits - 1)
    if word is None:
        return code, 0
    threshold = (place - code * 2**20 + 8) // 16
    first, second = word // 2**16 < threshold, word % 2**16 < threshold
    return (code + first, 0) if naive else (code, 2 * first + second)
