"""Dot products and changes of the weights for uniform levels, from the words as they lie in memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.layout import CHUNK, DIGIT_BITS
from bitlane.reference.blocks import BASE_SHIFT, DRAW_SHIFT, HALF

from .integers import clip, inlined, kernel, round_half_up
from .lanes import LANES, SUM_CHUNKS, add_terms, plane_sums
from .plan import BANK, SATURATIONS, Arrays, Regions, Rules, Shape
from .weights import BOX, HIGH, LOW, NONE, has_room, proximal_step

HALF_DIGITS = HALF // DIGIT_BITS
UNKNOWN = HIGH + 1  # a ceiling that holds for any weight


def _row_sums(
    shape: Shape, words: NDArray[np.uint64], rows: tuple[int, int], step: int, weights: NDArray[np.int32]
) -> tuple[int, int, int, int]:
    """Return the sums of `plane_sums` over all chunks of two rows."""
    low, high, other_low, other_high = 0, 0, 0, 0
    for chunk in range(0, shape.chunks, SUM_CHUNKS):
        count, shift = min(SUM_CHUNKS, shape.chunks - chunk), chunk * step
        some = plane_sums(words, (rows[0] + shift, rows[1] + shift), step, weights, chunk * LANES, count)
        low += some[0]
        high += some[1]
        other_low += some[2]
        other_high += some[3]
    return low, high, other_low, other_high


def _joined(digits: int, low: int, high: int) -> int:
    """Return ``round_half_up(dot, b)`` from the sums over the low and over the high digits of a code.

    Codes of more than 16 bits are summed as two halves, of at most 16 + 23 + 14 bits, as in `bitlane.reference.blocks`.
    """
    high_bits = DIGIT_BITS * (digits - HALF_DIGITS)
    rounded: int = round_half_up(low, DIGIT_BITS * digits)
    if high_bits > 0:
        rounded = (high + ((low + (1 << (HALF + high_bits - 1))) >> HALF)) >> high_bits
    return rounded


def _digit_dots(shape: Shape, arrays: Arrays, regions: Regions, output: int, rows: int) -> None:
    """Store ``round_half_up(dot_m, b)`` of both copies of the rows of a tile with an output, two rows at a time.

    A digit of bits h and l adds ``2 (2 h - 1) + (2 l - 1)`` times a weight.
    """
    bank, columns, digits = arrays.counters[BANK], shape.rows_per_beat, shape.base_digits
    weights, total = arrays.published[bank, output], arrays.totals[bank, output]
    base, draws, base_at, draw_at, dots = regions.base, regions.draws, arrays.base_at, arrays.draw_at, arrays.dots
    for row in range(0, rows, 2):
        other = min(row + 1, rows - 1)
        low, high, other_low, other_high = 0, 0, 0, 0
        for digit in range(digits):
            if digit == digits - HALF_DIGITS:
                high, low, other_high, other_low = low, 0, other_low, 0
            at = base_at[row] + digit * columns, base_at[other] + digit * columns
            sums = row_sums(shape, base, at, digits * columns, weights)
            low = 4 * low + 4 * sums[1] + 2 * sums[0] - 3 * total
            other_low = 4 * other_low + 4 * sums[3] + 2 * sums[2] - 3 * total
        if shape.draws:
            sums = row_sums(shape, draws, (draw_at[row], draw_at[other]), columns, weights)
            dots[0, row] = joined(digits, low + 2 * sums[1] - total, high)
            dots[1, row] = joined(digits, low + 2 * sums[0] - total, high)
            dots[0, other] = joined(digits, other_low + 2 * sums[3] - total, other_high)
            dots[1, other] = joined(digits, other_low + 2 * sums[2] - total, other_high)
        else:
            for i in range(2):
                dots[i, row] = joined(digits, low, high)
                dots[i, other] = joined(digits, other_low, other_high)


def _digit_terms(shape: Shape, arrays: Arrays, rows: int) -> tuple[int, int, int]:
    """Fill `Arrays.terms` for the rows of a tile: M - P of bit l and -(P + M) of bit h, to add to weights, then P.

    ``(h == l ? P : M) * (h ? 1 : -1) = (P + M) h + (P - M) l - P``.

    Returns
    -------
    digits : int
        Base digits with a P that is not 0; those behind them change nothing.
    offset : int
        The sum of all P: what each weight gets beside the terms of its bits.
    largest : int
        An upper bound of the size of the change of a weight.
    """
    offset, largest, digits = 0, 0, 0
    scaled, terms = arrays.scaled, arrays.terms
    for digit in range(shape.base_digits + shape.draws):
        is_draw = digit == shape.base_digits
        shift = 2 * digit + (DRAW_SHIFT if is_draw else BASE_SHIFT)
        some = False
        for row in range(rows):
            s, d = scaled[0, row], scaled[1, row]
            p = round_half_up(s if is_draw else 3 * s, shift)
            m = round_half_up(d if is_draw else s, shift)
            some = some or p != 0
            at = 2 * (digit * rows + row)
            terms[at] = m - p
            terms[at + 1] = -p - m
            offset += p
            largest += max(abs(p), abs(m))
        if not is_draw and digits == digit and some:
            digits += 1
    return digits, offset, largest


def _update_digits(
    shape: Shape, rules: Rules, arrays: Arrays, regions: Regions, output: int, rows: int, prox: int
) -> None:
    """Subtract the changes by the rows of a tile from the master weights, then apply the proximal operator."""
    digits, offset, largest = digit_terms(shape, arrays, rows)
    master, sums, terms, columns = arrays.master[output], arrays.sums, arrays.terms, shape.rows_per_beat
    base, draws, base_at, draw_at = regions.base, regions.draws, arrays.base_at, arrays.draw_at
    for chunk in range(shape.chunks):
        if not has_room(shape, arrays, output, chunk, largest):
            update_by_group(shape, rules, arrays, regions, output, rows, chunk, prox)
            continue
        for i in range(LANES):
            sums[i] = 0
        for digit in range(digits):
            shift = (chunk * shape.base_digits + digit) * columns
            add_terms(base, base_at, shift, rows, terms, 2 * digit * rows, sums)
        if shape.draws:
            first_term = 2 * shape.base_digits * rows
            add_terms(draws, draw_at, chunk * columns, rows, terms, first_term, sums)
        first = chunk * CHUNK
        count = min(CHUNK, shape.features - first)
        for j in range(count):  # sums that wrapped are right again: the weight is within 32 bits
            master[first + j] += sums[2 * j] + sums[2 * j + 1] + offset
        if prox != NONE:
            for j in range(min(count, rules.proximal - first)):
                master[first + j] = proximal_step(prox, rules, master[first + j])
            if prox == BOX:
                arrays.ceilings[output, chunk] = UNKNOWN


def _update_by_group(
    shape: Shape, rules: Rules, arrays: Arrays, regions: Regions, output: int, rows: int, chunk: int, prox: int
) -> None:
    """Change the weights of a chunk group by group, as the hardware does, and count those that are clipped."""
    columns, clipped = shape.rows_per_beat, 0
    arrays.ceilings[output, chunk] = UNKNOWN
    for j in range(min(CHUNK, shape.features - chunk * CHUNK)):
        feature = chunk * CHUNK + j
        master = np.int64(arrays.master[output, feature])
        for first in range(0, rows, columns):
            change = 0
            for row in range(first, min(first + columns, rows)):
                for digit in range(shape.base_digits + shape.draws):
                    if digit == shape.base_digits:
                        word = regions.draws[arrays.draw_at[row] + chunk * columns]
                    else:
                        word = regions.base[arrays.base_at[row] + (chunk * shape.base_digits + digit) * columns]
                    at = 2 * (digit * rows + row)
                    low, high = np.int64(arrays.terms[at]), np.int64(arrays.terms[at + 1])
                    change += low * (word >> 2 * j & 1) + high * (word >> 2 * j + 1 & 1) - (low + high) // 2
            exact = master + change
            master = clip(exact, LOW, HIGH)
            clipped += int(master != exact)
        if prox != NONE and master == exact and feature < rules.proximal:
            master = proximal_step(prox, rules, master)
        arrays.master[output, feature] = master
    arrays.counters[SATURATIONS] += clipped


row_sums = inlined(_row_sums)
joined = inlined(_joined)
digit_dots = kernel(_digit_dots)
digit_terms = inlined(_digit_terms)
update_by_group = kernel(_update_by_group)
update_digits = kernel(_update_digits)
