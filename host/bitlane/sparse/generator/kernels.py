"""The compiled loop of a click log: a row is a function of the seed and its number.

All random numbers are words of a hash of (stream, counter, counter): nothing is remembered between rows, so pieces and
threads change nothing. The mixer is the finalizer of SplitMix64 (Steele, Lea, Flood, 2014). Ranks come from
rejection-inversion (Hoermann, Derflinger, 1996), which is exact for any exponent and any number of ranks, without a
table.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.support.jit import Loop, machine_code

u64, f64 = np.uint64, np.float64
GOLDEN = u64(0x9E3779B97F4A7C15)
MULTIPLIER_1, MULTIPLIER_2 = u64(0xBF58476D1CE4E5B9), u64(0x94D049BB133111EB)
S1, S11, S16, S27, S30, S31, LOW = u64(1), u64(11), u64(16), u64(27), u64(30), u64(31), u64(0xFFFF)
UNIT = 2.0**-53
LOGARITHMIC = 1e-6  # exponents this close to 1 are taken as 1

# Streams of random words, and columns of the settings in arrays.
PHASE, TURNOVER, RANK, KEY, CLICK, WEIGHT, FACTOR = range(7)
BIAS, LINEAR, FACTORS, CHURN, TURN, DIM = range(6)
EXPONENT, LOW_AREA, HIGH_AREA, SQUEEZE = range(4)


def _inline(function: Loop) -> Any:
    return machine_code(function, nogil=True, error_model="numpy", forceinline=True)


@_inline
def mixed(word: np.uint64) -> Any:
    """Mix 64 bits by a bijection."""
    word = (word ^ (word >> S30)) * MULTIPLIER_1
    word = (word ^ (word >> S27)) * MULTIPLIER_2
    return word ^ (word >> S31)


@_inline
def word(stream: np.uint64, a: np.uint64, b: np.uint64) -> Any:
    """Return 64 random bits of a stream at the counters a and b."""
    return mixed(mixed(stream + a * GOLDEN) + b * GOLDEN)


@_inline
def unit(drawn: np.uint64) -> Any:
    """Return a number of (0, 1) from the upper 53 bits."""
    return (f64(drawn >> S11) + 0.5) * UNIT


@_inline
def quarter(drawn: np.uint64, index: int) -> Any:
    """Return number `index`, 0 to 3, of a word: uniform, mean 0, variance 1."""
    bits16 = (drawn >> (S16 * u64(index))) & LOW
    return (f64(bits16) + 0.5) * (2.0 * math.sqrt(3.0) / 65536.0) - math.sqrt(3.0)


@_inline
def area(x: float, exponent: float) -> Any:
    """Integral of ``t ** -exponent`` from 1 to x."""
    log_x = math.log(x)
    left = 1.0 - exponent
    if abs(left) < LOGARITHMIC:
        return log_x
    return (math.exp(left * log_x) - 1.0) / left


@_inline
def at_area(y: float, exponent: float) -> Any:
    """Return x with ``area(x, exponent) == y``."""
    left = 1.0 - exponent
    if abs(left) < LOGARITHMIC:
        return math.exp(y)
    return math.exp(math.log(1.0 + left * y) / left)


@_inline
def zipf_rank(stream: np.uint64, row: np.uint64, field: np.uint64, size: float, law: NDArray[np.float64]) -> Any:
    """Return a rank from 1 to `size`, drawn in proportion to ``rank ** -exponent``; `law` is a row of `zipf_laws`."""
    exponent = law[EXPONENT]
    attempt = u64(0)
    base = word(stream, row, field)
    while True:
        covered = law[HIGH_AREA] + unit(mixed(base + attempt * GOLDEN)) * (law[LOW_AREA] - law[HIGH_AREA])
        x = at_area(covered, exponent)
        rank = min(max(math.floor(x + 0.5), 1.0), size)
        if rank - x <= law[SQUEEZE] or covered >= area(rank + 0.5, exponent) - math.exp(-exponent * math.log(rank)):
            return rank
        attempt += u64(1)


@_inline
def weight(stream: np.uint64, key: np.uint64, cosine: float, sine: float) -> Any:
    """True weight of a key, with variance 1: a sum of four uniform numbers is close to normal."""
    bits = mixed(key ^ stream)
    total = 0.5 * (quarter(bits, 0) + quarter(bits, 1) + quarter(bits, 2) + quarter(bits, 3))
    if sine != 0.0:
        bits = mixed(bits + GOLDEN)
        total = cosine * total + sine * 0.5 * (
            quarter(bits, 0) + quarter(bits, 1) + quarter(bits, 2) + quarter(bits, 3)
        )
    return total


@_inline
def four_factors(stream: np.uint64, key: np.uint64, group: np.uint64, cosine: float, sine: float) -> Any:
    """Coordinates 4 group to 4 group + 3 of the true factors of a key, with variance 1."""
    bits = word(stream, key, group)
    v0, v1, v2, v3 = quarter(bits, 0), quarter(bits, 1), quarter(bits, 2), quarter(bits, 3)
    if sine != 0.0:
        bits = mixed(bits + GOLDEN)
        v0, v1 = cosine * v0 + sine * quarter(bits, 0), cosine * v1 + sine * quarter(bits, 1)
        v2, v3 = cosine * v2 + sine * quarter(bits, 2), cosine * v3 + sine * quarter(bits, 3)
    return v0, v1, v2, v3


@_inline
def true_logit(
    streams: NDArray[np.uint64], keys: NDArray[np.uint64], cosine: float, sine: float, numbers: NDArray[np.float64]
) -> Any:
    """Logit of a click of a row with these keys."""
    linear = 0.0
    for key in keys:
        linear += weight(streams[WEIGHT], key, cosine, sine)
    pairs = 0.0
    left = int(numbers[DIM])
    group = u64(0)
    while left > 0:
        s0, s1, s2, s3, q0, q1, q2, q3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for key in keys:
            v0, v1, v2, v3 = four_factors(streams[FACTOR], key, group, cosine, sine)
            s0, s1, s2, s3 = s0 + v0, s1 + v1, s2 + v2, s3 + v3
            q0, q1, q2, q3 = q0 + v0 * v0, q1 + v1 * v1, q2 + v2 * v2, q3 + v3 * v3
        pairs += s0 * s0 - q0
        pairs += s1 * s1 - q1 if left > 1 else 0.0
        pairs += s2 * s2 - q2 if left > 2 else 0.0
        pairs += s3 * s3 - q3 if left > 3 else 0.0
        left -= 4
        group += u64(1)
    return numbers[BIAS] + numbers[LINEAR] * linear + 0.5 * numbers[FACTORS] * numbers[FACTORS] * pairs


@_inline
def generation_of(streams: NDArray[np.uint64], row: np.uint64, field: np.uint64, rank: np.uint64, churn: float) -> Any:
    """How often the key of a rank has changed: between two changes both keys appear, the new one more and more."""
    age = churn * f64(row) + unit(word(streams[PHASE], field, rank))
    generation = u64(age)
    if unit(word(streams[TURNOVER], row, field)) < age - f64(generation):
        generation += u64(1)
    return generation


def _rows(
    streams: NDArray[np.uint64],
    numbers: NDArray[np.float64],
    sizes: NDArray[np.int64],
    laws: NDArray[np.float64],
    start: int,
    keys: NDArray[np.uint64],
    logits: NDArray[np.float64],
    labels: NDArray[np.float32],
) -> None:
    """Fill rows `start`, start + 1, ... of a log.

    Parameters
    ----------
    streams : uint64 [7]
        One for each purpose.
    numbers : float64 [6]
        Bias, scale of weights, scale of factors, churn and turn in a row, length of the factors.
    sizes : int64 [fields]
    laws : float64 [fields, 4]
        From `zipf_laws`.
    start : int
    keys : uint64 [rows, fields]
    logits : float64 [rows]
    labels : float32 [rows]
    """
    fields = len(sizes)
    generation = u64(0)
    for i in range(len(logits)):
        row = u64(start + i)
        for f in range(fields):
            keys[i, f] = u64(zipf_rank(streams[RANK], row, u64(f), f64(sizes[f]), laws[f]))
        for f in range(fields):
            field, rank = u64(f), keys[i, f]
            if numbers[CHURN] > 0.0:
                generation = generation_of(streams, row, field, rank, numbers[CHURN])
            keys[i, f] = mixed(word(streams[KEY], field, rank) + generation * GOLDEN) >> S1
        angle = numbers[TURN] * f64(row)
        cosine, sine = (math.cos(angle), math.sin(angle)) if angle != 0.0 else (1.0, 0.0)
        logits[i] = true_logit(streams, keys[i], cosine, sine, numbers)
        probability = 1.0 / (1.0 + math.exp(-logits[i]))
        labels[i] = 1.0 if unit(word(streams[CLICK], row, u64(0))) < probability else 0.0


rows = machine_code(_rows, nogil=True, error_model="numpy")


def zipf_laws(sizes: NDArray[np.int64], exponent: float) -> NDArray[np.float64]:
    """Return what `zipf_rank` needs of each field: exponent, area at both ends, and the largest rank - x that is always
    accepted.

    Parameters
    ----------
    sizes : int64 [fields]
    exponent : float

    Returns
    -------
    float64 [fields, 4]
    """
    laws = np.empty((len(sizes), 4))
    laws[:, EXPONENT] = exponent
    laws[:, LOW_AREA] = area(1.5, exponent) - 1.0
    laws[:, HIGH_AREA] = [area(size + 0.5, exponent) for size in sizes.tolist()]
    laws[:, SQUEEZE] = 2.0 - at_area(area(2.5, exponent) - 2.0**-exponent, exponent)
    return laws
