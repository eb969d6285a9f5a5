"""Field-aware factorization machine, as in Juan et al. (2016) and libffm.

``z = r sum_{i<j} <v_{i,f_j}, v_{j,f_i}> x_i x_j``, with ``r = 1 / sum_i x_i^2`` if rows are normalised; beside it
linear weights and an intercept if the model has any. The cost is quadratic in the number of features of a row.

Each feature has a block of factors for each field. A row of data changes the blocks of the fields that it has.

Online, a row's pairs take their steps one after the other, as in libffm. A minibatch adds a factor's gradients up and
takes one step. Both are the same, to the bit, for a row with one feature a field.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.models import losses, lr
from bitlane.sparse.models.losses import row_weight, slope
from bitlane.sparse.models.lr import Features, Index, fetch, intercept_of, lead_of, longest_row
from bitlane.sparse.parameters import kernels as optimizer_kernels
from bitlane.sparse.parameters import vectors
from bitlane.sparse.parameters.compiling import inner, kernel
from bitlane.sparse.parameters.kernels import Memory, Settings, settings_at, step, weight
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.parameters.vectors import Lanes, lanes_in, lanes_of, load, store, total, zeros

View = tuple[Memory, Index, int, int, int, Settings]
_PLAIN = SGD.code  # values are the weights themselves


@inner
def norm(values: NDArray[np.float32], first: int, last: int, normalise: bool) -> float:
    """Return 1 / sum x^2 of a row's features, known or not; 1 if rows are not normalised."""
    squares = 0.0
    for j in range(first, last):
        x = np.float64(values[j])  # float() of a float32 stays a float32 in numba
        squares += x * x
    return 1.0 / squares if normalise and squares > 0 else 1.0


@inner
def factor(view: View, i: int, field: int, f: int, zero: Lanes) -> Any:
    """Return values from `f` on of feature i's factors for `field`.

    A view is a tuple: memory, where each feature's factors begin, floats from block to block, dim, the optimizer's code
    and settings.
    """
    memory, starts, stride, dim, code, settings = view
    return weight(code, memory, starts[i] + field * stride + f, dim, zero, settings)


@inner
def pairs(view: View, x: Memory, fields: Index, count: int, zero: Lanes) -> Any:
    """Return the sum over pairs of `count` features."""
    dim = view[3]
    summed = zero
    for i in range(count):
        for j in range(i + 1, count):
            for f in range(0, dim, lanes_in(zero)):
                product = factor(view, i, fields[j], f, zero) * factor(view, j, fields[i], f, zero)
                summed = summed + product * (x[i] * x[j])
    return total(summed)


@inner
def learn_pairs(view: View, x: Memory, fields: Index, count: int, scale: float, zero: Lanes) -> None:
    """Take a step in both factors of each pair, one pair after the other: algorithm 1 of Juan et al. (2016).

    `scale` is the loss's slope times the norm.
    """
    memory, starts, stride, dim, code, settings = view
    for i in range(count):
        for j in range(i + 1, count):
            c = scale * (x[i] * x[j])
            mine, other = starts[i] + fields[j] * stride, starts[j] + fields[i] * stride
            for f in range(0, dim, lanes_in(zero)):
                a = weight(code, memory, mine + f, dim, zero, settings)
                b = weight(code, memory, other + f, dim, zero, settings)
                step(code, memory, mine + f, dim, b * c, a, settings)
                step(code, memory, other + f, dim, a * c, b, settings)


@inner
def add_gradients(
    view: View, x: Memory, fields: Index, count: int, scale: float, sums: tuple[Memory, Index], zero: Lanes
) -> None:
    """Add the gradients of a row's factors to `sums`: memory, where each feature's begin."""
    dim = view[3]
    memory, starts = sums
    for i in range(count):
        for j in range(i + 1, count):
            c = scale * (x[i] * x[j])
            for f in range(0, dim, lanes_in(zero)):
                a, b = factor(view, i, fields[j], f, zero), factor(view, j, fields[i], f, zero)
                at, other = starts[i] + fields[j] * dim + f, starts[j] + fields[i] * dim + f
                store(memory, at, load(memory, at, zero) + b * c)
                store(memory, other, load(memory, other, zero) + a * c)


@cache
def kernels(dim: int, linear: int, second: int) -> tuple[Any, Any]:
    """Return the kernels `online` and `minibatch`. Their parameters are those of `lr`, except `codes` and `shape`.

    Parameters
    ----------
    dim : int
    linear, second : int
        Optimizers of the linear weights (-1: the model has none) and of the factors.
    """
    lanes = lanes_of(dim)
    first_factor = int(linear >= 0)

    @kernel(lr, losses, optimizer_kernels, vectors)
    def online(
        rows: Memory,
        slots: Index,
        batch: Features,
        bias: Memory,
        settings: Memory,
        codes: tuple[int, int, int, int, int],
        rows_seen: float,
        scores: Memory,
    ) -> None:
        """`codes`: the intercept's optimizer, the loss, whether rows are normalised, start of the factors in a row,
        floats from block to block.
        """
        all_fields, values, offsets, labels, row_weights = batch
        dense, loss, normalise, start, stride = codes
        memory, width = rows.reshape(rows.size), rows.shape[1]
        lead = lead_of(width)
        fetch(memory, width, slots, 0, lead)
        longest, zero, cast = longest_row(offsets), zeros(rows, lanes), rows.dtype.type
        x, weights = np.empty(longest, rows.dtype), np.empty(longest, rows.dtype)
        starts, fields = np.empty(longest, np.int64), np.empty(longest, np.int64)
        learned = max(rows_seen, 0.0)
        for r in range(len(labels)):
            fetch(memory, width, slots, offsets[r] + lead, offsets[r + 1] + lead)
            linear_settings = settings_at(linear, settings, 0, learned)
            factor_settings = settings_at(second, settings, first_factor, learned)
            bias_settings = settings_at(dense, settings, len(settings) - 1, learned)
            view = (memory, starts, stride, dim, second, factor_settings)
            score, count = 0.0, 0
            for j in range(offsets[r], offsets[r + 1]):
                if slots[j] < 0:
                    continue
                starts[count], x[count], fields[count] = slots[j] * width + start, values[j], all_fields[j]
                if linear >= 0:
                    w = weight(linear, memory, slots[j] * width, 1, linear_settings[0], linear_settings)
                    weights[count] = w
                    score += w * x[count]
                count += 1
            scale = norm(values, offsets[r], offsets[r + 1], normalise)
            score += pairs(view, x, fields, count, zero) * scale
            intercept = intercept_of(bias, dense, bias_settings)
            score += intercept
            scores[r] = score
            if rows_seen < 0:
                continue
            counted = row_weight(row_weights, r)
            learned += counted
            gradient = cast(slope(loss, score, labels[r]) * counted)
            if len(bias):
                step(dense, bias, 0, 1, gradient, intercept, bias_settings)
            if linear >= 0:
                for i in range(count):
                    step(linear, memory, starts[i] - start, 1, gradient * x[i], weights[i], linear_settings)
            learn_pairs(view, x, fields, count, cast(gradient * scale), zero)

    @kernel(lr, losses, optimizer_kernels, vectors)
    def minibatch(
        weights: Memory,
        index: Index,
        batch: Features,
        bias: Memory,
        shape: tuple[int, int],
        gradients: Memory,
        scores: Memory,
    ) -> float:
        """`shape`: the loss or -1, whether rows are normalised."""
        all_fields, values, offsets, labels, row_weights = batch
        loss, normalise = shape
        memory, width = weights.reshape(weights.size), weights.shape[1]
        sums = gradients.reshape(gradients.size)
        longest, zero, cast = longest_row(offsets), zeros(weights, lanes), weights.dtype.type
        x, starts, fields = np.empty(longest, weights.dtype), np.empty(longest, np.int64), np.empty(longest, np.int64)
        one = cast(1)
        view = (memory, starts, dim, dim, _PLAIN, (one, one, one, one))
        total_slope = 0.0
        for r in range(len(labels)):
            score, count = 0.0, 0
            for j in range(offsets[r], offsets[r + 1]):
                if index[j] < 0:
                    continue
                starts[count], x[count], fields[count] = index[j] * width + first_factor, values[j], all_fields[j]
                if linear >= 0:
                    score += memory[index[j] * width] * x[count]
                count += 1
            scale = norm(values, offsets[r], offsets[r + 1], normalise)
            score += pairs(view, x, fields, count, zero) * scale
            if len(bias):
                score += bias[0]
            scores[r] = score
            if loss < 0:
                continue
            gradient = cast(slope(loss, score, labels[r]) * row_weight(row_weights, r))
            total_slope += gradient
            if linear >= 0:
                for i in range(count):
                    sums[starts[i] - 1] += gradient * x[i]
            add_gradients(view, x, fields, count, cast(gradient * scale), (sums, starts), zero)
        return total_slope

    return online, minibatch
