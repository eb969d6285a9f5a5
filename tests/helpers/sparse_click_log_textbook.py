"""The rows of a click log in plain Python, written from the docstrings: integers, math, and loops."""

from __future__ import annotations

import math

import numpy as np

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mixed(x: int) -> int:
    """The finalizer of SplitMix64."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def word(stream: int, a: int, b: int) -> int:
    return mixed((mixed((stream + a * GOLDEN) & MASK) + b * GOLDEN) & MASK)


def unit(bits: int) -> float:
    return ((bits >> 11) + 0.5) / 2**53


def quarters(bits: int) -> list[float]:
    """Four numbers with mean 0 and variance 1."""
    return [(((bits >> (16 * i)) & 0xFFFF) + 0.5) * (2 * math.sqrt(3) / 65536) - math.sqrt(3) for i in range(4)]


def area(x: float, s: float) -> float:
    return math.log(x) if s == 1 else (x ** (1 - s) - 1) / (1 - s)


def at_area(y: float, s: float) -> float:
    return math.exp(y) if s == 1 else (1 + (1 - s) * y) ** (1 / (1 - s))


def zipf_rank(stream: int, row: int, field: int, size: int, s: float) -> int:
    """Rejection-inversion, without the shortcut that accepts most ranks early."""
    base = word(stream, row, field)
    for attempt in range(1000):
        u = unit(mixed((base + attempt * GOLDEN) & MASK))
        high, low = area(size + 0.5, s), area(1.5, s) - 1
        place = high + u * (low - high)
        rank = min(max(math.floor(at_area(place, s) + 0.5), 1), size)
        if place >= area(rank + 0.5, s) - rank**-s:
            return rank
    raise AssertionError("no rank accepted")


def row_of(settings, bias: float, row: int) -> tuple[list[int], float, float]:
    """Keys, logit and label of a row; `bias` is the log's."""
    phase, turnover, rank_of, key_of, click, weight_of, factor_of = (
        int(each) for each in np.random.SeedSequence(settings.seed).generate_state(7, np.uint64)
    )
    keys = []
    for field, size in enumerate(settings.sizes):
        rank = zipf_rank(rank_of, row, field, size, settings.zipf)
        generation = 0
        if settings.churn:
            age = settings.churn / 1e6 * row + unit(word(phase, field, rank))
            generation = math.floor(age) + (unit(word(turnover, row, field)) < age % 1)
        keys.append(mixed((word(key_of, field, rank) + generation * GOLDEN) & MASK) >> 1)
    angle = settings.turn / 1e6 * row
    turned = [(math.cos(angle), 0), (math.sin(angle), 1)] if angle else [(1.0, 0)]
    weights, factors = 0.0, []
    for key in keys:
        bits = [mixed(key ^ weight_of)]
        bits.append(mixed((bits[0] + GOLDEN) & MASK))
        weights += sum(share * sum(quarters(bits[k])) / 2 for share, k in turned)
        vector = []
        for group in range(-(-settings.dim // 4)):
            bits = [word(factor_of, key, group)]
            bits.append(mixed((bits[0] + GOLDEN) & MASK))
            parts = [[share * each for each in quarters(bits[k])] for share, k in turned]
            vector += [sum(each) for each in zip(*parts, strict=True)]
        factors.append(vector[: settings.dim])
    pairs = [
        sum(a * b for a, b in zip(factors[i], factors[j], strict=True))
        for i in range(len(keys))
        for j in range(i + 1, len(keys))
    ]
    logit = bias + settings.linear * weights / math.sqrt(len(keys))
    if pairs:
        logit += settings.interactions * sum(pairs) / math.sqrt(len(pairs) * settings.dim)
    label = unit(word(click, row, 0)) < 1 / (1 + math.exp(-logit))
    return keys, logit, float(label)


def popularity(size: int, s: float) -> np.ndarray:
    """Zipf's law: probabilities of the ranks 1 to `size`, float64."""
    weights = np.arange(1, size + 1, dtype=np.float64) ** -s
    return weights / weights.sum()
