"""Dot products and changes of the weights for codebooks: levels that are looked up, products rounded one by one."""

from __future__ import annotations

import numpy as np

from bitlane.contract.formats import LEVEL
from bitlane.contract.layout import CHUNK
from bitlane.reference.blocks import LEVEL_SHIFT

from .integers import clip, kernel, round_half_up
from .plan import BANK, SATURATIONS, Arrays, Regions, Rules, Shape
from .weights import HIGH, LOW, NONE, proximal_step

LEVEL_FRACTION = LEVEL.fraction


def _select_levels(shape: Shape, arrays: Arrays, regions: Regions, rows: int) -> None:
    """Look up the levels of the rows of a tile that their draws select."""
    columns, digits, half = shape.rows_per_beat, shape.base_digits, shape.half_digit
    base, draws, levels, drawn = regions.base, regions.draws, arrays.levels, arrays.drawn
    for row in range(rows):
        first, draw = arrays.base_at[row], arrays.draw_at[row]
        for chunk in range(shape.chunks):
            start = first + (chunk * digits + half * (chunk // 2 + 1)) * columns
            halves = 0
            if half:
                halves = base[first + (chunk // 2 * (1 + 2 * digits)) * columns] >> CHUNK * (chunk % 2)
            ends = draws[draw + chunk * columns]
            word = 0  # of the only digit: a code has at most three bits
            if digits:
                word = base[start]
            for j in range(min(CHUNK, shape.features - chunk * CHUNK)):
                code = (halves >> j & 1) << 2 * digits | word >> 2 * j & 3
                feature = chunk * CHUNK + j
                drawn[0, row, feature] = levels[code + (ends >> 2 * j + 1 & 1), feature]
                drawn[1, row, feature] = levels[code + (ends >> 2 * j & 1), feature]


def _level_dots(shape: Shape, arrays: Arrays, output: int, rows: int) -> None:
    """Store ``round_half_up(dot_m, 16)`` of both copies of the rows of a tile: sums of at most 17 + 23 + 14 bits."""
    weights, drawn, dots = arrays.published[arrays.counters[BANK], output], arrays.drawn, arrays.dots
    for row in range(rows):
        first, second = 0, 0
        for j in range(shape.features):
            first += drawn[0, row, j] * np.int64(weights[j])
            second += drawn[1, row, j] * np.int64(weights[j])
        dots[0, row] = round_half_up(first, LEVEL_FRACTION)
        dots[1, row] = round_half_up(second, LEVEL_FRACTION)


def _update_levels(shape: Shape, rules: Rules, arrays: Arrays, output: int, rows: int, prox: int) -> None:
    """Subtract the changes by the rows of a tile group by group, then apply the proximal operator."""
    weights, drawn, scaled, changes = arrays.master[output], arrays.drawn, arrays.scaled, arrays.changes
    clipped = 0
    for first in range(0, rows, shape.rows_per_beat):
        end = min(first + shape.rows_per_beat, rows)
        changes[:] = 0
        for row in range(first, end):
            c1, c2 = scaled[0, row], scaled[1, row]
            for j in range(shape.features):
                changes[j] += round_half_up(drawn[0, row, j] * c2, LEVEL_SHIFT)
                changes[j] += round_half_up(drawn[1, row, j] * c1, LEVEL_SHIFT)
        proximal = rules.proximal if end == rows and prox != NONE else 0
        for j in range(shape.features):
            exact = weights[j] - changes[j]
            master = clip(exact, LOW, HIGH)
            clipped += int(master != exact)
            if j < proximal and master == exact:
                master = proximal_step(prox, rules, master)
            weights[j] = master
    arrays.counters[SATURATIONS] += clipped


select_levels = kernel(_select_levels)
level_dots = kernel(_level_dots)
update_levels = kernel(_update_levels)
