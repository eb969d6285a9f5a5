"""Blocks of samples as the float64 matrices that their exact products need, each made when first used.

Sums over features and rows use float64 BLAS, which is exact as long as each partial sum is an integer below 2**53.
Codes of more than 16 bits are therefore multiplied as two halves, joined by ``floor((x + floor(y / a)) / b)``. With
codebooks, which are rounded row by row, at most 2**13 features are added at a time.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.fixed_point import round_half_up
from bitlane.contract.formats import LEVEL, LEVEL_SCALED_GRADIENT, MASTER, SCALED_GRADIENT, WEIGHT, WEIGHT_EXPONENT
from bitlane.contract.layout import DIGIT_BITS

HALF = 16  # bits of a code that one exact multiplication takes: 16 + 23 + 14 (features) = 53
EXACT_FEATURES = 1 << 53 - (LEVEL.bits - 1) - (WEIGHT.bits - 1)  # whose level times weight one exact sum takes
DRAW_SHIFT = SCALED_GRADIENT.fraction - MASTER.fraction + 1  # the 1 is the half of the symmetrised gradient
BASE_SHIFT = DRAW_SHIFT + 2  # the low bit of the first digit weighs a quarter
# The coefficient is twice step * slope, and the gradient half of the sum of two products.
LARGEST_EXPONENT = WEIGHT_EXPONENT.maximum  # dot products are shifted left by it first: then only right
LEVEL_SHIFT = LEVEL.fraction + LEVEL_SCALED_GRADIENT.fraction - MASTER.fraction + 2

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]
Codes = NDArray[np.unsignedinteger]


class Change(Protocol):
    """The amount t of `docs/design.md` that some rows subtract from the master weights."""

    @property
    def largest(self) -> Int64s:
        """Return an upper bound, int64 [outputs], of the sum over the rows of ``|t_j|`` for any feature j."""

    def total(self, some: slice) -> Int64s:
        """Return the sum over some of the rows: int64 [outputs, n], or 0 for all features."""

    def of_groups(self, output: int, columns: NDArray[np.intp], group: int) -> Int64s:
        """Return the sums over each group of `group` rows, for some columns of an output: [groups, columns]."""


class RowBlock(Protocol):
    """A block of rows."""

    def rounded_dots(self, rows: slice, x: Floats, exponent: int) -> list[Int64s]:
        """Return the dot products of both copies with weights [n, outputs] in units of 2**(exponent - 20), rounded to
        units of 2**-20: int64 [m, outputs].
        """

    def change(self, rows: slice, first: Int64s, second: Int64s) -> Change:
        """Return the change by these rows for int64 [m, outputs]: s and d, or with codebooks c_1 and c_2."""


class DigitBlock:
    """Rows with uniform levels: base codes [m, n] and draw codes [m, n] or None."""

    def __init__(self, codes: Codes, draws: Codes | None, base_digits: int):
        self.base_digits = base_digits
        self.has_draws = draws is not None
        self._codes = codes = codes.astype(np.uint32, copy=False)
        self._draws = draws
        self._planes: dict[int, tuple[Floats, Floats]] = {}
        base_bits = base_digits * DIGIT_BITS
        self._high_bits = max(0, base_bits - HALF)
        self._low = _odd(codes & np.uint32((1 << HALF) - 1), base_bits - self._high_bits)
        self._high = _odd(codes >> np.uint32(HALF), self._high_bits) if self._high_bits else None

    def planes(self, digit: int) -> tuple[Floats, Floats]:
        """Return the bits h and l of a digit of all rows, as 0.0 and 1.0: two float64 [m, n]."""
        if digit not in self._planes:
            if digit == self.base_digits:
                assert self._draws is not None
                pairs = self._draws
            else:
                pairs = self._codes >> np.uint32(DIGIT_BITS * (self.base_digits - 1 - digit))
            self._planes[digit] = ((pairs >> 1 & 1).astype(np.float64), (pairs & 1).astype(np.float64))
        return self._planes[digit]

    def rounded_dots(self, rows: slice, x: Floats, exponent: int) -> list[Int64s]:
        """Return ``round_half_up(dot_m, b - exponent)``."""
        low = (self._low[rows] @ x).astype(np.int64)
        if self.has_draws:
            total = x.sum(axis=0)
            lows = [low + (2 * (bits[rows] @ x) - total).astype(np.int64) for bits in self.planes(self.base_digits)]
        else:
            lows = [low, low]
        if self._high is None:
            return [_rounded(dot, self.base_digits * DIGIT_BITS, exponent) for dot in lows]
        high = (self._high[rows] @ x).astype(np.int64) << LARGEST_EXPONENT
        bits = self._high_bits + LARGEST_EXPONENT - exponent
        half = 1 << (HALF + bits - 1)
        return [(high + (((dot << LARGEST_EXPONENT) + half) >> HALF)) >> bits for dot in lows]

    def change(self, rows: slice, s: Int64s, d: Int64s) -> DigitChange:
        """Return the change for s and d."""
        return DigitChange(self, rows, s, d)


class DigitChange:
    """A sum over digits: P or M of each row and output, with either sign."""

    def __init__(self, block: DigitBlock, rows: slice, s: Int64s, d: Int64s):
        self._rows = rows.stop - rows.start
        self._terms: list[tuple[Floats, Floats, Int64s, Int64s]] = []  # h, l, P, M, of digits where not all P are 0

        def add(digit: int, p: Int64s, m: Int64s) -> None:
            high, low = block.planes(digit)
            self._terms.append((high[rows], low[rows], p, m))

        for k in range(block.base_digits):
            p = round_half_up(3 * s, 2 * k + BASE_SHIFT)
            if not p.any():
                break  # and so are all M and the P of the digits behind
            add(k, p, round_half_up(s, 2 * k + BASE_SHIFT))
        if block.has_draws:
            k = block.base_digits
            add(k, round_half_up(s, 2 * k + DRAW_SHIFT), round_half_up(d, 2 * k + DRAW_SHIFT))

    @property
    def largest(self) -> Int64s:
        """Return a bound with the larger of P and M for each digit."""
        return sum(
            (np.maximum(np.abs(p), np.abs(m)).sum(axis=0) for *_, p, m in self._terms), start=np.zeros(1, np.int64)
        )

    def total(self, some: slice) -> Int64s:
        """With the bits h and l of a digit, `(h == l ? P : M) * (h ? 1 : -1) = (P + M) h + (P - M) l - P`."""
        total = np.zeros((1, 1))
        for high, low, *both in self._terms:
            p, m = (each[some] for each in both)
            plus, minus = (p + m).T.astype(np.float64), (p - m).T.astype(np.float64)
            total = total + (plus @ high[some] + minus @ low[some] - p.sum(axis=0)[:, np.newaxis])
        return total.astype(np.int64)

    def of_groups(self, output: int, columns: NDArray[np.intp], group: int) -> Int64s:
        """Return the sums of groups, by the same formula as `total`."""
        total = np.zeros((self._rows, len(columns)))
        for high, low, p, m in self._terms:
            total += (p + m)[:, output, np.newaxis] * high[:, columns]
            total += (p - m)[:, output, np.newaxis] * low[:, columns]
            total -= p[:, output, np.newaxis]
        return _of_groups(total, group)


class CodebookBlock:
    """Rows with codebooks: base codes and draw codes [m, n], levels [levels, n] as integers in units of 2**-16."""

    def __init__(self, codes: Codes, draws: Codes, levels: Floats):
        lower = codes.astype(np.intp)
        self.largest_level = int(np.abs(levels).max())
        self.drawn = [np.take_along_axis(levels, lower + bit, axis=0) for bit in (draws >> 1, draws & 1)]

    def rounded_dots(self, rows: slice, x: Floats, exponent: int) -> list[Int64s]:
        """Return ``round_half_up(dot_m, 16 - exponent)``."""
        slices = [slice(first, first + EXACT_FEATURES) for first in range(0, len(x), EXACT_FEATURES)]
        of_slices = (np.array([drawn[rows, some] @ x[some] for some in slices], np.int64) for drawn in self.drawn)
        return [_rounded(dots.sum(axis=0), LEVEL.fraction, exponent) for dots in of_slices]

    def change(self, rows: slice, c_1: Int64s, c_2: Int64s) -> CodebookChange:
        """Return the change for c_1 and c_2, which are within LEVEL_SCALED_GRADIENT."""
        return CodebookChange([drawn[rows] for drawn in self.drawn], [c_2, c_1], self.largest_level)


class CodebookChange:
    """A sum over both copies: a level times the scaled gradient of the other copy, rounded."""

    def __init__(self, drawn: list[Floats], coefficients: list[Int64s], largest_level: int):
        self._drawn = drawn
        self._coefficients = coefficients
        self._largest_level = largest_level

    @property
    def largest(self) -> Int64s:
        """Return a bound with the largest level for each feature, and half a unit for each rounding."""
        total: Int64s = np.abs(self._coefficients).sum(axis=(0, 1))
        return (total * self._largest_level >> LEVEL_SHIFT) + 1 + len(self._coefficients[0])

    def total(self, some: slice) -> Int64s:
        """Return the sum of values that are rounded one by one, which no matrix product can do."""
        outputs = range(self._coefficients[0].shape[1])
        total = np.array([self._rounded(output, some, slice(None)).sum(axis=0) for output in outputs])
        return total.astype(np.int64)

    def of_groups(self, output: int, columns: NDArray[np.intp], group: int) -> Int64s:
        """Return the sums of groups, rounded in the same way."""
        return _of_groups(self._rounded(output, slice(None), columns), group)

    def _rounded(self, output: int, rows: slice, columns: slice | NDArray[np.intp]) -> Floats:
        """Return t of each row, float64; the products of 41 bits are exact before rounding."""
        terms = []
        for drawn, c in zip(self._drawn, self._coefficients, strict=True):
            term = drawn[rows][:, columns] * np.ldexp(c[rows, output, np.newaxis].astype(np.float64), -LEVEL_SHIFT)
            term += 0.5
            terms.append(np.floor(term, out=term))
        terms[0] += terms[1]
        return terms[0]


def _rounded(dots: Int64s, bits: int, exponent: int) -> Int64s:
    """Return ``round_half_up(dots, bits - exponent)``, of a negative number of bits too; at most 56 bits and 7 more."""
    return round_half_up(dots << LARGEST_EXPONENT, bits + LARGEST_EXPONENT - exponent)


def _odd(codes: Codes, bits: int) -> Floats:
    """Return codes as the odd integers ``2 i + 1 - 2**bits`` (0 if bits is 0), in float64."""
    q = codes.astype(np.float64)
    q *= 2
    q += 1 - (1 << bits)
    return q


def _of_groups(terms: Floats, group: int) -> Int64s:
    """Return the sums of each `group` rows of float64 [m, columns]."""
    return np.add.reduceat(terms, np.arange(0, len(terms), group)).astype(np.int64)
