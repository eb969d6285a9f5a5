"""Rows of parameters in bulk: their first values, their weights, one step of each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.parameters import kernels, vectors
from bitlane.sparse.parameters.compiling import inner, kernel
from bitlane.sparse.parameters.kernels import Memory, encode, settings_at, step, weight
from bitlane.support.instructions import prefetch

Keys = NDArray[np.uint64]
Slots = NDArray[np.int64]
Plan = NDArray[np.int64]  # of a `Layout`

_AHEAD = 16  # rows that are on their way
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_UNIFORM = 1.0 / (1 << 24)
_BELL = 1.0 / 37837.22717  # the sum of four 16-bit draws has this standard deviation: sqrt(4 * (2^32 - 1) / 12)


@inner
def mix(word: np.uint64) -> Any:
    """Return 64 bits that all depend on all 64 bits of `word`: the finalizer of splitmix64."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@inner
def drawn(uniform: int, word: np.uint64) -> float:
    """Return a draw from [0, 1), or from a bell of mean 0 and standard deviation 1, by the bits of `word`."""
    if uniform:
        return float(word >> np.uint64(40)) * _UNIFORM
    mask = np.uint64(0xFFFF)
    summed = (
        (word & mask) + ((word >> np.uint64(16)) & mask) + ((word >> np.uint64(32)) & mask) + (word >> np.uint64(48))
    )
    return (float(summed) - 131070.0) * _BELL


@kernel(kernels, vectors)
def initialise_rows(keys: Keys, seed: np.uint64, plan: Plan, table: Memory, rows: Memory) -> None:
    """Write the first values of `keys` to `rows` [n, width]; `plan` and `table` are those of a `Layout`."""
    memory, width = rows.reshape(rows.size), rows.shape[1]
    for i in range(len(keys)):
        base = mix(keys[i] ^ mix(seed))
        for block in range(len(plan)):
            start, first, size, code, uniform = plan[block]
            settings = settings_at(code, table, block, 0)
            scale = float(table[block, 5])
            for each in range(size):
                value = 0.0
                if scale > 0.0:
                    value = scale * drawn(uniform, mix(base + np.uint64(first + each + 1) * _GOLDEN))
                at = i * width + start + each
                encode(code, memory, at, size, rows.dtype.type(value), settings, table[block, 4])


@kernel(kernels, vectors)
def encode_row(row: Memory, weights: Memory, plan: Plan, table: Memory) -> None:
    """Write new values with the given weights to a row of one block."""
    _, _, size, code, _ = plan[0]
    settings = settings_at(code, table, 0, 0)
    for each in range(size):
        encode(code, row, each, size, weights[each], settings, table[0, 4])


@kernel(kernels, vectors)
def read_weights(rows: Memory, slots: Slots, plan: Plan, table: Memory, weights: Memory) -> None:
    """Write the weights of `slots` to `weights` [n, values]; zeros where a slot is -1."""
    memory, width = rows.reshape(rows.size), rows.shape[1]
    alone, (_, _, all_values, only, _) = len(plan) == 1, plan[0]
    fixed = settings_at(only, table, 0, 0)
    for i in range(len(slots)):
        if i + _AHEAD < len(slots):
            prefetch(rows, slots[i + _AHEAD] * width)
            prefetch(rows, slots[i + _AHEAD] * width + width - 1)
        if slots[i] < 0:
            weights[i, :] = 0
            continue
        if alone:  # two to three times as fast as the loop over blocks
            at = slots[i] * width
            for each in range(all_values):
                weights[i, each] = weight(only, memory, at + each, all_values, weights[i, 0], fixed)
            continue
        for block in range(len(plan)):
            start, first, size, code, _ = plan[block]
            settings = settings_at(code, table, block, 0)
            at = slots[i] * width + start
            for each in range(size):
                weights[i, first + each] = weight(code, memory, at + each, size, weights[i, 0], settings)


@kernel(kernels, vectors)
def update_rows(rows: Memory, slots: Slots, plan: Plan, table: Memory, gradients: Memory, rows_seen: float) -> None:
    """Take one step in each of `slots`, which are distinct, with `gradients` [n, values]; -1 is left out."""
    memory, width = rows.reshape(rows.size), rows.shape[1]
    alone, (_, _, all_values, only, _) = len(plan) == 1, plan[0]
    fixed = settings_at(only, table, 0, rows_seen)
    for i in range(len(slots)):
        if i + _AHEAD < len(slots):
            prefetch(rows, slots[i + _AHEAD] * width)
            prefetch(rows, slots[i + _AHEAD] * width + width - 1)
        if slots[i] < 0:
            continue
        if alone:  # as in `read_weights`
            at = slots[i] * width
            for each in range(all_values):
                gradient = gradients[i, each]
                current = weight(only, memory, at + each, all_values, gradient, fixed)
                step(only, memory, at + each, all_values, gradient, current, fixed)
            continue
        for block in range(len(plan)):
            start, first, size, code, _ = plan[block]
            settings = settings_at(code, table, block, rows_seen)
            at = slots[i] * width + start
            for each in range(size):
                gradient = gradients[i, first + each]
                current = weight(code, memory, at + each, size, gradient, settings)
                step(code, memory, at + each, size, gradient, current, settings)
