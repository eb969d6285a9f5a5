"""Logistic or linear regression: z = b + sum w_i x_i."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.models import losses
from bitlane.sparse.models.losses import row_weight, slope
from bitlane.sparse.parameters import kernels as optimizer_kernels
from bitlane.sparse.parameters import vectors
from bitlane.sparse.parameters.compiling import inner, kernel
from bitlane.sparse.parameters.kernels import Memory, Settings, settings_at, step, weight
from bitlane.support.instructions import prefetch

Index = NDArray[np.int64]
# fields, values, offsets, labels, and weights of the rows or an empty array
Features = tuple[NDArray[np.uint16], NDArray[np.float32], Index, NDArray[np.float32], NDArray[np.float32]]


@inner
def intercept_of(bias: Memory, code: int, settings: Settings) -> Any:
    """Return the intercept of its matrix's row; 0 if that is empty."""
    nothing = settings[0] - settings[0]  # in the dtype of the settings
    return weight(code, bias, 0, 1, nothing, settings) if len(bias) else nothing


@inner
def longest_row(offsets: Index) -> int:
    """Return the number of features of the longest row."""
    longest = 0
    for r in range(len(offsets) - 1):
        longest = max(longest, offsets[r + 1] - offsets[r])
    return longest


@inner
def lead_of(width: int) -> int:
    """Return how many features ahead rows of `width` floats are fetched into the caches: 32 KiB, 8 to 64 rows."""
    return min(64, max(8, 8192 // width))


@inner
def fetch(memory: Memory, width: int, slots: Index, first: int, last: int) -> None:
    """Ask for the rows of the features `first` to `last` - 1; features beyond the last one are left out."""
    for j in range(first, min(last, len(slots))):
        for line in range(0, width, 16):
            prefetch(memory, slots[j] * width + line)


@cache
def kernels(linear: int) -> tuple[Any, Any]:
    """Return the kernels `online` and `minibatch` of weights with the optimizer `linear`."""

    @kernel(losses, optimizer_kernels, vectors)
    def online(
        rows: Memory,
        slots: Index,
        batch: Features,
        bias: Memory,
        settings: Memory,
        codes: tuple[int, int],
        rows_seen: float,
        scores: Memory,
    ) -> None:
        """Score every row, and learn it before the next if `rows_seen` is at least 0.

        Parameters
        ----------
        rows : float [slots, width]
            The table.
        slots : int64 [nnz]
            -1 contributes nothing.
        batch : tuple
            fields, values, offsets, labels, weights of the rows (empty: each counts as one).
        bias : float [floats]
            The intercept's matrix, or empty.
        settings : float [blocks + 1, 6]
            Of the blocks of a row and of the intercept.
        codes : tuple of int
            The intercept's optimizer, the loss.
        rows_seen : float
            Weight of the rows learned before, or -1 to score only.
        scores : float [rows]
            Result.
        """
        _, values, offsets, labels, row_weights = batch
        dense, loss = codes
        memory, width = rows.reshape(rows.size), rows.shape[1]
        lead = lead_of(width)
        fetch(memory, width, slots, 0, lead)
        weights = np.empty(longest_row(offsets), rows.dtype)
        learned = max(rows_seen, 0.0)
        for r in range(len(labels)):
            fetch(memory, width, slots, offsets[r] + lead, offsets[r + 1] + lead)
            first, last = offsets[r], offsets[r + 1]
            linear_settings = settings_at(linear, settings, 0, learned)
            bias_settings = settings_at(dense, settings, 1, learned)
            score = 0.0
            for j in range(first, last):
                if slots[j] >= 0:
                    w = weight(linear, memory, slots[j] * width, 1, linear_settings[0], linear_settings)
                    weights[j - first] = w
                    score += w * values[j]
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
            for j in range(first, last):
                if slots[j] >= 0:
                    step(linear, memory, slots[j] * width, 1, gradient * values[j], weights[j - first], linear_settings)

    @kernel(losses)
    def minibatch(
        weights: Memory, index: Index, batch: Features, bias: Memory, loss: int, gradients: Memory, scores: Memory
    ) -> float:
        """Score every row with the same weights, and add up its gradients.

        Parameters
        ----------
        weights, gradients : float [n, values]
            `gradients` is added to.
        index : int64 [nnz]
            Index of each feature in `weights`; -1 contributes nothing.
        batch : tuple
            fields, values, offsets, labels, weights of the rows (empty: each counts as one).
        bias : float [1] or []
            The intercept.
        loss : int
            -1 to score only.
        scores : float [rows]
            Result.

        Returns
        -------
        total : float
            Sum of weight times slope of all rows: the intercept's gradient.
        """
        _, values, offsets, labels, row_weights = batch
        total = 0.0
        for r in range(len(labels)):
            score = 0.0
            for j in range(offsets[r], offsets[r + 1]):
                if index[j] >= 0:
                    score += weights[index[j], 0] * values[j]
            if len(bias):
                score += bias[0]
            scores[r] = score
            if loss < 0:
                continue
            gradient = weights.dtype.type(slope(loss, score, labels[r]) * row_weight(row_weights, r))
            total += gradient
            for j in range(offsets[r], offsets[r + 1]):
                if index[j] >= 0:
                    gradients[index[j], 0] += gradient * values[j]
        return total

    return online, minibatch
