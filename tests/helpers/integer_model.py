"""The arithmetic of `docs/design.md` on Python integers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from bitlane.contract.sigmoid_lut import sigmoid_lut


def rounded(x: int, n: int) -> int:
    """Return x * 2**-n, rounded to the nearest integer, halves up."""
    return math.floor(Fraction(x, 1 << n) + Fraction(1, 2)) if n else x


def clip(x: int, bits: int) -> int:
    """Clip x to the range of a signed number of `bits` bits."""
    return max(-(1 << bits - 1), min((1 << bits - 1) - 1, x))


def pack(values: list[int], bits: int) -> int:
    """Return fields of `bits` bits as one integer, the first field in the low bits; in two's complement."""
    return sum((value & ((1 << bits) - 1)) << (bits * i) for i, value in enumerate(values))


def unpack(word: int, count: int, bits: int) -> list[int]:
    """Return the signed fields of an integer: the inverse of `pack`."""
    fields = [(word >> (bits * i)) & ((1 << bits) - 1) for i in range(count)]
    return [field - (1 << bits) if field >> (bits - 1) else field for field in fields]


def random_int(rng: Random, bits: int) -> int:
    """Return a signed number of `bits` bits, of any magnitude and often an extreme one."""
    if rng.random() < 0.2:
        return rng.choice((-(1 << bits - 1), (1 << bits - 1) - 1, 0, -1, 1))
    return rng.randrange(-(1 << bits - 1), 1 << bits - 1) >> rng.randrange(bits)


SQUARES, HINGE, LOGISTIC = range(3)  # losses
NONE, L2, L1, BOX = range(4)  # proximal operators
ONE = 1 << 20  # the number 1 as a residual or slope
SIGMOID_LUT = sigmoid_lut()
LIMITS = -(1 << 31), (1 << 31) - 1  # range of a master weight


def dots(digits: list[list[list[int]]], base_digits: int, model: list[list[int]]) -> tuple[int, int]:
    """Return q.X + u1.X and q.X + u2.X; without draws both are q.X.

    digits [chunk][digit][lane] and model [chunk][lane]. A digit 2h + l stands for 2(+-1) + (+-1); the bits of a draw
    digit are the signs u1 and u2.
    """
    sums = [0, 0]
    for chunk, weights in zip(digits, model, strict=False):
        for j, weight in enumerate(weights):
            q = sum((2 * chunk[k][j] - 3) * 4 ** (base_digits - 1 - k) for k in range(base_digits))
            for i, high in enumerate((2, 1)):
                u = 0 if len(chunk) == base_digits else 1 if chunk[base_digits][j] & high else -1
                sums[i] += (q + u) * weight
    return sums[0], sums[1]


def predicted(dot: int, base_digits: int, weight_exponent: int) -> tuple[int, int]:
    """Return the prediction z, and whether it was clipped."""
    right = 2 * base_digits - weight_exponent
    exact = rounded(dot, right) if right >= 0 else dot << -right
    return clip(exact, 24), clip(exact, 24) != exact


def slope(loss: int, z: int, label: int) -> tuple[int, tuple[int, int], int]:
    """Return r, the cost of the margin and that of the lookup table (HINGE, LOGISTIC), and whether r was clipped."""
    if loss == SQUARES:
        exact = z - (label << 5)
        return clip(exact, 24), (0, 0), clip(exact, 24) != exact
    y = 1 if label >= 0 else -1
    if loss == HINGE:
        lacks = ONE - y * z
        return (-y * ONE if lacks > 0 else 0), (max(lacks, 0), 0), 0
    tail, logarithm = SIGMOID_LUT[(z if z >= 0 else ~z) >> 13]
    sigmoid = ONE - (tail << 2) if z >= 0 else tail << 2
    return sigmoid - (ONE if y > 0 else 0), (max(-y * z, 0), logarithm << 2), 0


def loss_of(loss: int, r: tuple[int, int], costs: tuple[int, int]) -> int:
    """Return the contribution of a row to the loss."""
    return rounded(r[0] * r[1], 8) if loss == SQUARES else sum(costs) << 11


def scaled_gradient(operand: int, scale: tuple[int, int]) -> tuple[int, int]:
    """Return the sum or difference of two slopes times (mantissa, exponent), and whether it was clipped."""
    mantissa, exponent = scale
    exact = rounded(operand * mantissa, exponent + 4)
    return clip(exact, 32), clip(exact, 32) != exact


def row_terms(total: int, difference: int, base_digits: int, draws: int) -> list[tuple[int, int]]:
    """Return the terms (P_k, M_k) of the digits of a chunk."""
    terms = [(rounded(3 * total, 2 * k + 4), rounded(total, 2 * k + 4)) for k in range(base_digits)]
    shift = 2 * base_digits + 2
    return terms + [(rounded(total, shift), rounded(difference, shift))] * draws


def weight_change(digits: Iterable[int], terms: list[tuple[int, int]]) -> int:
    """Return the change t of a weight, given the digits of its feature and their terms."""
    signs = [1 if digit & 2 else -1 for digit in digits]
    alike = [digit in (0, 3) for digit in digits]
    return sum(sign * (plus if same else minus) for sign, same, (plus, minus) in zip(signs, alike, terms, strict=True))


@dataclass(frozen=True)
class Proximal:
    """The proximal operator at the end of a batch."""

    prox: int = NONE
    threshold: int = 0
    low: int = 0
    high: int = 0

    def updated(self, exact: int, unpenalized: bool) -> tuple[int, int]:
        """Return the new weight for A' = `exact`, and whether it was clipped; unpenalized weights skip the operator."""
        if not LIMITS[0] <= exact <= LIMITS[1]:
            return clip(exact, 32), 1
        if unpenalized or self.prox == NONE:
            return exact, 0
        if self.prox == L2:
            return exact - math.floor(Fraction(exact, 64)), 0
        if self.prox == L1:
            return max(exact - self.threshold, 0) if exact > 0 else min(exact + self.threshold, 0), 0
        # Bounds have the unit 2**16: values below the low bound, and from the high bound on, are clipped.
        if exact >= self.high << 16:
            return self.high << 16, 0
        return max(exact, self.low << 16), 0
