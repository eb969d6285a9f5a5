"""The scalar stage of a row: slopes and loss of its dot products, then s and d."""

from __future__ import annotations

from bitlane.contract.formats import LABEL, LEVEL_SCALED_GRADIENT, RESIDUAL, SCALED_GRADIENT
from bitlane.contract.modes import Loss
from bitlane.reference.machine import (
    CELL_BITS,
    HALF_LOSS_SHIFT,
    LEVEL_COEFFICIENT_SHIFT,
    LOSS_SHIFT,
    ONE,
)

from .integers import clip, inlined, kernel, random_word, round_at_random, round_half_up
from .plan import SATURATIONS, SEED, Arrays, Int64s, Rules, Shape

SQUARES, HINGE = int(Loss.SQUARES), int(Loss.HINGE)
LABEL_SHIFT = RESIDUAL.fraction - LABEL.fraction
RESIDUAL_LOW, RESIDUAL_HIGH = RESIDUAL.minimum, RESIDUAL.maximum
SCALED_LOW, SCALED_HIGH = SCALED_GRADIENT.minimum, SCALED_GRADIENT.maximum
LEVEL_LOW, LEVEL_HIGH = LEVEL_SCALED_GRADIENT.minimum, LEVEL_SCALED_GRADIENT.maximum


def _slope(loss: int, dot: int, label: int, sigmoid: Int64s) -> tuple[int, int, int]:
    """Return slope and loss of one copy, and the number of clipped values. Squares have no loss of a copy."""
    z = clip(dot, RESIDUAL_LOW, RESIDUAL_HIGH)
    if loss == SQUARES:
        residual = z - (label << LABEL_SHIFT)
        r = clip(residual, RESIDUAL_LOW, RESIDUAL_HIGH)
        return r, 0, int(z != dot) + int(r != residual)
    if loss == HINGE:
        margin = ONE - (z if label >= 0 else -z)
        if margin > 0:
            return (-ONE if label >= 0 else ONE), margin, 0
        return 0, 0, 0
    cell = (z if z >= 0 else ~z) >> CELL_BITS
    tail, logarithm = sigmoid[0, cell], sigmoid[1, cell]
    r = (ONE - tail if z >= 0 else tail) - (ONE if label >= 0 else 0)
    return r, max(-z if label >= 0 else z, 0) + logarithm, 0


def _scaled_gradients(shape: Shape, rules: Rules, arrays: Arrays, output: int, rows: int, first_group: int) -> None:
    """Run the scalar stage of the rows of a tile for an output, and store s and d; add up losses and saturations.

    `first_group` is the first group of the tile in its batch.
    """
    dots, labels, scaled, sigmoid = arrays.dots, arrays.labels, arrays.scaled, arrays.sigmoid
    seed, lanes = arrays.counters[SEED], arrays.gradient_lanes
    total, clipped = 0, 0
    for row in range(rows):
        label = labels[output, row]
        r1, loss1, clipped1 = slope(rules.loss, dots[0, row], label, sigmoid)
        r2, loss2, clipped2 = slope(rules.loss, dots[1, row], label, sigmoid)
        clipped += clipped1 + clipped2
        if rules.loss == SQUARES:
            total += round_half_up(r1 * r2, LOSS_SHIFT)
        else:
            total += (loss1 + loss2) << HALF_LOSS_SHIFT
        mantissa, shift = rules.mantissa, rules.shift
        if label < 0:
            mantissa, shift = rules.mantissa_negative, rules.shift_negative
        for i in range(2):
            x = round_half_up((r1 + r2 if i == 0 else r2 - r1) * mantissa, shift)
            value = clip(x, SCALED_LOW, SCALED_HIGH)
            clipped += int(value != x)
            if rules.scaled_gradient_cut:
                group, column = row // shape.rows_per_beat, row % shape.rows_per_beat
                random = random_word(seed, first_group + group, lanes[2 * column + i])
                x = round_at_random(value, random, rules.scaled_gradient_cut)
                value = clip(x, SCALED_LOW, SCALED_HIGH)
                clipped += int(value != x)
            scaled[i, row] = value
    arrays.loss[output] += total
    arrays.counters[SATURATIONS] += clipped


def _level_coefficients(arrays: Arrays, rows: int) -> None:
    """Replace s and d of the rows of a tile by c_1 and c_2."""
    scaled, clipped = arrays.scaled, 0
    for row in range(rows):
        s, d = scaled[0, row], scaled[1, row]
        for i in range(2):
            x = round_half_up(s - d if i == 0 else s + d, LEVEL_COEFFICIENT_SHIFT)
            value = clip(x, LEVEL_LOW, LEVEL_HIGH)
            clipped += int(value != x)
            scaled[i, row] = value
    arrays.counters[SATURATIONS] += clipped


slope = inlined(_slope)
scaled_gradients = kernel(_scaled_gradients)
level_coefficients = kernel(_level_coefficients)
