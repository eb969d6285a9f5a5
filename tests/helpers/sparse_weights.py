"""Weights of rows: rows with weights, their copies, and minibatch learning as textbooks write it, with exact sums."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from tests.helpers.sparse_models import textbook_of
from tests.helpers.sparse_textbook import ffm_score, fm_gradient, fm_score, lr_score, slope_of

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.spec import ModelSpec

# A weight is copies of a row in one minibatch. scikit-learn's checks learn row after row, or in random order.
EQUIVALENCE = {
    f"check_sample_weight_equivalence_on_{data}_data": "copies of a row are learned in other steps"
    for data in ("dense", "sparse")
}


def weighted(batch: Batch, weights: NDArray[np.integer] | NDArray[np.floating]) -> Batch:
    """The rows of a batch with weights."""
    return replace(batch, weights=np.asarray(weights, np.float32))


def repeated(batch: Batch) -> Batch:
    """Copies of each row next to each other, as many as its weight, without weights; none for weight 0."""
    assert batch.weights is not None
    order = np.repeat(np.arange(batch.rows), batch.weights.astype(np.int64))
    return replace(batch.take(order), weights=None)


class MinibatchTextbook:
    """LR, FM or FFM of one feature a field, float64; gradients of a minibatch are summed without any rounding."""

    def __init__(self, spec: ModelSpec):
        self.spec, self.book, self.seen = spec, textbook_of(spec), 0.0

    def learn(self, batch: Batch) -> NDArray[np.float64]:
        """Learn a minibatch; return the scores before."""
        book, sums, scores = self.book, {}, []
        bias = 0.0 if book.bias is None else book.bias.weight
        counts = np.ones(batch.rows) if batch.weights is None else batch.weights
        for r in range(batch.rows):
            part = slice(batch.offsets[r], batch.offsets[r + 1])
            keys, fields, x = batch.keys[part].tolist(), batch.fields[part].tolist(), batch.values[part].tolist()
            rows = [np.array([each.weight for each in book._row(key)]) for key in keys]
            score, gradients = self._row(bias, rows, fields, x)
            slope = slope_of(self.spec.loss, score, float(batch.labels[r]))
            scores.append(score)
            for key, gradient in zip([None, *keys], [np.ones(1), *gradients], strict=True):
                summed = sums.setdefault(key, [Fraction(0)] * len(gradient))
                for place, each in enumerate(gradient):
                    summed[place] += Fraction(float(each) * slope) * Fraction(float(counts[r]))
        for key, summed in sums.items():
            for each, gradient in zip([book.bias] if key is None else book._row(key), summed, strict=True):
                if each is not None:
                    each.step(float(gradient), self.seen)
        self.seen += float(counts.sum())
        return np.array(scores)

    def _row(self, bias, rows, fields, x):
        spec = self.spec
        if spec.kind == "lr":
            return lr_score(bias, rows, fields, x), [[each] for each in x]
        if spec.kind == "fm":
            return fm_score(bias, rows, fields, x), fm_gradient(rows, fields, x)
        linear = int(spec.linear is not None)
        score = bias + ffm_score([row[linear:] for row in rows], fields, x, spec.size, spec.normalise)
        score += sum(row[0] * each for row, each in zip(rows, x, strict=True)) * linear
        scale = 1 / sum(each * each for each in x) if spec.normalise and x else 1.0
        gradients = [np.zeros(len(row)) for row in rows]
        for i, value in enumerate(x):
            gradients[i][:linear] = value
            for j, other in enumerate(x):
                if i != j:
                    at, theirs = linear + fields[j] * spec.size, linear + fields[i] * spec.size
                    pair = rows[j][theirs : theirs + spec.size] * value * other * scale
                    gradients[i][at : at + spec.size] += pair
        return score, gradients
