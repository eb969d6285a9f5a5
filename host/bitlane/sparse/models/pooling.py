"""The sparse layer of networks: embeddings pooled by field, linear weights and pairs of factors, forward and backward.

The sums have a fixed order, so that they have the same bits on every machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.support.jit import machine_code

Floats = NDArray[np.floating[Any]]
Index = NDArray[np.int64]
Features = tuple[NDArray[np.uint16], NDArray[np.float32], Index]  # fields, values, offsets


def _forward(
    weights: Floats, index: Index, batch: Features, terms: tuple[bool, bool], pooled: Floats, scores: Floats
) -> None:
    """Pool the embeddings of each row by field, and add the linear weights and the pairs to its score.

    Parameters
    ----------
    weights : float [n, values]
        The linear weight if there is one, then the embedding.
    index : int64 [nnz]
        Index of each feature in `weights`; -1 contributes nothing.
    batch : tuple
        fields, values, offsets.
    terms : tuple of bool
        Whether there are linear weights, and pairs.
    pooled : float [rows, fields, dim]
        Result: the sum of value times embedding of the features of a field.
    scores : float [rows]
        Result: the linear weights and ``1/2 sum_f [(sum_i v_if x_i)^2 - sum_i (v_if x_i)^2]``.
    """
    fields, values, offsets = batch
    has_linear, has_pairs = terms
    first, dim = int(has_linear), pooled.shape[2]
    sums, squares = np.zeros(dim, weights.dtype), np.zeros(dim, weights.dtype)
    pooled[:] = 0
    for r in range(len(scores)):
        score = 0.0
        sums[:] = 0
        squares[:] = 0
        for j in range(offsets[r], offsets[r + 1]):
            if index[j] < 0:
                continue
            row, x, out = weights[index[j]], weights.dtype.type(values[j]), pooled[r, fields[j]]
            if has_linear:
                score += row[0] * x
            for f in range(dim):
                term = row[first + f] * x
                out[f] += term
                if has_pairs:
                    sums[f] += term
                    squares[f] += term * term
        if has_pairs:
            pairs = 0.0
            for f in range(dim):
                pairs += sums[f] * sums[f] - squares[f]
            score += 0.5 * pairs
        scores[r] = score


def _backward(
    weights: Floats,
    index: Index,
    batch: Features,
    terms: tuple[bool, bool],
    slopes: Floats,
    pooled: tuple[Floats, Floats],
    gradients: Floats,
) -> None:
    """Add the gradients of the weights, summed over the rows.

    Parameters
    ----------
    weights, index, batch, terms
        Those of the forward pass.
    slopes : float [rows]
        Derivative of the loss by each row's score.
    pooled : tuple of two float [rows, fields, dim]
        The pooled embeddings, and the derivative of the loss by them.
    gradients : float [n, values]
        Result; zeros before.
    """
    fields, values, offsets = batch
    has_linear, has_pairs = terms
    embeddings, derivatives = pooled
    first, dim = int(has_linear), embeddings.shape[2]
    sums = np.zeros(dim, weights.dtype)
    for r in range(len(slopes)):
        if has_pairs:
            sums[:] = 0
            for field in range(embeddings.shape[1]):
                for f in range(dim):
                    sums[f] += embeddings[r, field, f]
        for j in range(offsets[r], offsets[r + 1]):
            if index[j] < 0:
                continue
            row, into, x = weights[index[j]], gradients[index[j]], weights.dtype.type(values[j])
            scaled, inner = slopes[r] * x, derivatives[r, fields[j]]
            if has_linear:
                into[0] += scaled
            for f in range(dim):
                gradient = inner[f] * x
                if has_pairs:
                    gradient += scaled * (sums[f] - row[first + f] * x)
                into[first + f] += gradient


forward = machine_code(_forward, nogil=True)
backward = machine_code(_backward, nogil=True)
