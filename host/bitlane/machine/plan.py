"""What the C functions get: the shape of an epoch and its settings as integers, and the arrays that they work on.

`state.c` has the same fields in the same order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.fixed_point import phase_rate, split_float
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import CHUNK
from bitlane.contract.modes import Prox
from bitlane.contract.prng import model_lanes, scaled_gradient_lanes
from bitlane.contract.settings import Settings
from bitlane.contract.sigmoid_lut import sigmoid_lut
from bitlane.contract.state import ModelState
from bitlane.reference.machine import BOUND_SHIFT, STEP_SHIFT, TABLE_SHIFT, THRESHOLD_SHIFT

TILE_WORDS = 8192  # of rows whose words stay in the second cache between dot products and gradients: 64 KiB
CODEBOOK_TILE_LEVELS = 1 << 15  # drawn levels of such rows, for codebooks: 128 KiB of each copy
CACHE_LINE = 64  # bytes
PHASE, SHRINK_PHASE, SEED, SATURATIONS, BANK = range(5)  # indices in `Arrays.counters`

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

# sigmoid(-u), log(1 + exp(-u)), as RESIDUAL
_SIGMOID: Int64s = np.ascontiguousarray(np.array(sigmoid_lut(), np.int64).T << TABLE_SHIFT)


class Shape(NamedTuple):
    """The integers of a `Geometry` that the C functions use, and the most groups of a tile."""

    features: int
    chunks: int
    rows: int
    batch: int
    rows_per_beat: int
    outputs: int
    base_digits: int
    half_digit: int
    draws: int
    codebook: int
    base_row_words: int
    tile_groups: int


class Rules(NamedTuple):
    """The settings of an epoch, as the C functions use them."""

    loss: int
    further_loss: int
    epsilon: int
    mantissa: int
    shift: int
    mantissa_negative: int
    shift_negative: int
    rate: int  # what the phase grows by at a batch's end
    shrink_rate: int  # the same of the shrinks beside a threshold
    prox: int
    threshold: int
    low: int  # the box, as master weights
    high: int
    proximal: int  # features, from the first, that the proximal operator changes
    staleness: int
    weight_exponent: int
    model_cut: int
    scaled_gradient_cut: int


class Arrays(NamedTuple):
    """The state of a run, and memory for the rows of a tile.

    Attributes
    ----------
    master : int32 [outputs, chunks * 32]
        Master weights, 0 for missing features.
    ceilings : int64 [outputs, chunks]
        Upper bounds of the sizes of the master weights of a chunk.
    published : int32 [banks, outputs, chunks * 32 * copies]
        The weights that dot products read: two copies of each with digits, one with codebooks.
    totals : int64 [banks, outputs]
        Their sums.
    loss : int64 [outputs]
    counters : int64 [5]
        At `PHASE`, `SHRINK_PHASE`, `SEED`, `SATURATIONS`, and `BANK`: the bank that this batch reads.
    base_at, draw_at : int64 [rows]
        Word of the base and of the draw region where a row begins.
    labels : int64 [outputs, rows]
    dots : int64 [2, rows]
        Dot products of both copies with an output, rounded, not clipped.
    scaled : int64 [2, rows]
        s and d of an output, with codebooks c_1 and c_2.
    terms : int32 [digits * rows * 2]
        For each digit and row the terms of l and of h.
    sums : int32 [64]
    changes : int64 [chunks * 32]
        What a group subtracts from the weights; only with codebooks.
    drawn : int32 [2, rows, chunks * 32]
        Levels that the draws select; empty with digits.
    levels : int32 [levels, chunks * 32]
        Codebooks; empty with digits.
    sigmoid : int64 [2, cells]
    model_lanes, gradient_lanes : int64
        Offsets of the lanes of random rounding.
    """

    master: Int32s
    ceilings: Int64s
    published: Int32s
    totals: Int64s
    loss: Int64s
    counters: Int64s
    base_at: Int64s
    draw_at: Int64s
    labels: Int64s
    dots: Int64s
    scaled: Int64s
    terms: Int32s
    sums: Int32s
    changes: Int64s
    drawn: Int32s
    levels: Int32s
    sigmoid: Int64s
    model_lanes: Int64s
    gradient_lanes: Int64s


def shape_of(geometry: Geometry) -> Shape:
    """Return the integers of a geometry."""
    if geometry.codebook:
        rows = CODEBOOK_TILE_LEVELS // (geometry.chunks * CHUNK)
    else:
        rows = TILE_WORDS // geometry.row_words
    return Shape(
        geometry.features,
        geometry.chunks,
        geometry.rows,
        min(geometry.batch, geometry.rows),
        geometry.rows_per_beat,
        geometry.outputs,
        geometry.base_digits,
        int(geometry.half_digit),
        int(geometry.draws),
        int(geometry.codebook),
        geometry.base_row_words,
        max(1, min(rows // geometry.rows_per_beat, geometry.batch_groups)),
    )


def rules_of(settings: Settings, features: int) -> Rules:
    """Return the settings of an epoch with `features` features."""
    mantissa, exponent = split_float(settings.step)
    mantissa_negative, exponent_negative = split_float(settings.step_negative)
    rate, shrink_rate = phase_rate(settings.penalty_step), phase_rate(settings.shrink_step)
    threshold = rate >> THRESHOLD_SHIFT
    prox = Prox.NONE if settings.prox == Prox.L1 and not threshold and not shrink_rate else settings.prox
    low, high = settings.bounds
    return Rules(
        int(settings.loss),
        int(settings.further_loss),
        settings.epsilon,
        mantissa,
        exponent + STEP_SHIFT,
        mantissa_negative,
        exponent_negative + STEP_SHIFT,
        rate,
        shrink_rate,
        int(prox),
        threshold,
        low << BOUND_SHIFT,
        high << BOUND_SHIFT,
        features - settings.unpenalized_intercept,
        settings.staleness,
        settings.weight_exponent,
        settings.model_cut,
        settings.scaled_gradient_cut,
    )


def arrays_of(geometry: Geometry, state: ModelState, levels: Int32s | None, shape: Shape) -> Arrays:
    """Return the arrays at the start of a run."""
    padded = geometry.chunks * CHUNK
    rows = shape.tile_groups * geometry.rows_per_beat
    banks = 1 + state.settings.staleness
    copies = 1 if geometry.codebook else 2
    counters = np.zeros(5, np.int64)
    settings = state.settings
    counters[PHASE], counters[SHRINK_PHASE], counters[SEED] = settings.phase, settings.shrink_phase, settings.seed
    return Arrays(
        _padded(state.master, padded),
        np.full((geometry.outputs, geometry.chunks), np.iinfo(np.int64).max >> 1, np.int64),
        _aligned(banks, geometry.outputs, padded * copies),
        np.zeros((banks, geometry.outputs), np.int64),
        np.zeros(geometry.outputs, np.int64),
        counters,
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
        np.zeros((geometry.outputs, rows), np.int64),
        np.zeros((2, rows), np.int64),
        np.zeros((2, rows), np.int64),
        np.zeros(geometry.digits * rows * 2, np.int32),
        _aligned(2 * CHUNK),
        np.zeros(padded, np.int64),
        np.zeros((2, rows, padded if geometry.codebook else 0), np.int32),
        np.zeros((0, 0), np.int32) if levels is None else _padded(levels, padded),
        _SIGMOID,
        model_lanes().astype(np.int64),
        scaled_gradient_lanes(geometry.rows_per_beat).astype(np.int64),
    )


def _padded(values: Int32s, width: int) -> Int32s:
    padded = np.zeros((len(values), width), np.int32)
    padded[:, : values.shape[1]] = values
    return padded


def _aligned(*shape: int) -> Int32s:
    """Return zeros, int32, that begin at a cache line: no vector of 64 bytes crosses one."""
    count = math.prod(shape)
    spare = np.zeros(count + CACHE_LINE // 4, np.int32)
    first = -spare.ctypes.data % CACHE_LINE // 4
    return spare[first : first + count].reshape(shape)
