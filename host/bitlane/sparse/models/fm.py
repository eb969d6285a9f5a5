"""Factorization machine, as in Rendle (2010).

``z = b + sum_i w_i x_i + 1/2 sum_f [(sum_i v_if x_i)^2 - sum_i (v_if x_i)^2]``

The cost is linear in the number of features of a row.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from bitlane.sparse.models import losses, lr
from bitlane.sparse.models.losses import row_weight, slope
from bitlane.sparse.models.lr import Features, Index, fetch, intercept_of, lead_of, longest_row
from bitlane.sparse.parameters import kernels as optimizer_kernels
from bitlane.sparse.parameters import vectors
from bitlane.sparse.parameters.compiling import inner, kernel
from bitlane.sparse.parameters.kernels import Memory, settings_at, step, weight
from bitlane.sparse.parameters.vectors import Lanes, lanes_in, lanes_of, load, store, total, zeros


@inner
def pairs(gathered: Memory, x: Memory, count: int, sums: Memory, zero: Lanes) -> float:
    """Return the sum over pairs of `count` features, and write sum_i v_i x_i to `sums` [dim].

    `gathered` [count * dim] holds the features' factors side by side.
    """
    dim, lanes = len(sums), lanes_in(zero)
    result = 0.0
    for f in range(0, dim, lanes):
        summed, squared = zero, zero
        for i in range(count):
            term = load(gathered, i * dim + f, zero) * x[i]
            summed = summed + term
            squared = squared + term * term
        store(sums, f, summed)
        result += total(summed * summed - squared)
    return 0.5 * result


@cache
def kernels(dim: int, linear: int, second: int) -> tuple[Any, Any]:
    """Return the kernels `online` and `minibatch`. Their parameters are those of `lr`, except `codes`.

    Parameters
    ----------
    dim : int
    linear, second : int
        Optimizers of linear weights and factors.
    """
    lanes = lanes_of(dim)

    @kernel(lr, losses, optimizer_kernels, vectors)
    def online(
        rows: Memory,
        slots: Index,
        batch: Features,
        bias: Memory,
        settings: Memory,
        codes: tuple[int, int, int],
        rows_seen: float,
        scores: Memory,
    ) -> None:
        """`codes`: the intercept's optimizer, the loss, the start of the factors in a row."""
        _, values, offsets, labels, row_weights = batch
        dense, loss, start = codes
        memory, width = rows.reshape(rows.size), rows.shape[1]
        lead = lead_of(width)
        fetch(memory, width, slots, 0, lead)
        longest, zero = longest_row(offsets), zeros(rows, lanes)
        x, weights, starts = np.empty(longest, rows.dtype), np.empty(longest, rows.dtype), np.empty(longest, np.int64)
        factors, sums = np.empty(longest * dim, rows.dtype), np.empty(dim, rows.dtype)
        learned = max(rows_seen, 0.0)
        for r in range(len(labels)):
            fetch(memory, width, slots, offsets[r] + lead, offsets[r + 1] + lead)
            linear_settings = settings_at(linear, settings, 0, learned)
            factor_settings = settings_at(second, settings, 1, learned)
            bias_settings = settings_at(dense, settings, 2, learned)
            score, count = 0.0, 0
            for j in range(offsets[r], offsets[r + 1]):
                if slots[j] < 0:
                    continue
                at = slots[j] * width
                starts[count], x[count] = at, values[j]
                w = weight(linear, memory, at, 1, linear_settings[0], linear_settings)
                weights[count] = w
                score += w * x[count]
                for f in range(0, dim, lanes):
                    v = weight(second, memory, at + start + f, dim, zero, factor_settings)
                    store(factors, count * dim + f, v)
                count += 1
            score += pairs(factors, x, count, sums, zero)
            intercept = intercept_of(bias, dense, bias_settings)
            score += intercept
            scores[r] = score
            if rows_seen < 0:
                continue
            counted = row_weight(row_weights, r)
            learned += counted
            gradient = rows.dtype.type(slope(loss, score, labels[r]) * counted)
            if len(bias):
                step(dense, bias, 0, 1, gradient, intercept, bias_settings)
            for i in range(count):
                at, scaled = starts[i], gradient * x[i]
                step(linear, memory, at, 1, scaled, weights[i], linear_settings)
                for f in range(0, dim, lanes):
                    v = load(factors, i * dim + f, zero)
                    slopes = (load(sums, f, zero) - v * x[i]) * scaled
                    step(second, memory, at + start + f, dim, slopes, v, factor_settings)

    @kernel(lr, losses, vectors)
    def minibatch(
        weights: Memory, index: Index, batch: Features, bias: Memory, loss: int, gradients: Memory, scores: Memory
    ) -> float:
        _, values, offsets, labels, row_weights = batch
        memory, summed, width = weights.reshape(weights.size), gradients.reshape(gradients.size), weights.shape[1]
        longest, zero = longest_row(offsets), zeros(weights, lanes)
        x, starts = np.empty(longest, weights.dtype), np.empty(longest, np.int64)
        factors, sums = np.empty(longest * dim, weights.dtype), np.empty(dim, weights.dtype)
        total_slope = 0.0
        for r in range(len(labels)):
            score, count = 0.0, 0
            for j in range(offsets[r], offsets[r + 1]):
                if index[j] < 0:
                    continue
                at = index[j] * width
                starts[count], x[count] = at, values[j]
                score += memory[at] * x[count]
                for f in range(0, dim, lanes):
                    store(factors, count * dim + f, load(memory, at + 1 + f, zero))
                count += 1
            score += pairs(factors, x, count, sums, zero)
            if len(bias):
                score += bias[0]
            scores[r] = score
            if loss < 0:
                continue
            gradient = weights.dtype.type(slope(loss, score, labels[r]) * row_weight(row_weights, r))
            total_slope += gradient
            for i in range(count):
                at, scaled = starts[i], gradient * x[i]
                summed[at] += scaled
                for f in range(at + 1, at + 1 + dim, lanes):
                    v = load(factors, i * dim + f - at - 1, zero)
                    slopes = (load(sums, f - at - 1, zero) - v * x[i]) * scaled
                    store(summed, f, load(summed, f, zero) + slopes)
        return total_slope

    return online, minibatch
