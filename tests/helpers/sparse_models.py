"""What the tests of sparse models share: rows with planted weights, textbooks of a model, finite differences."""

from __future__ import annotations

import numpy as np
from tests.helpers.sparse_textbook import Textbook, ffm_score, first_weight, fm_score, loss_of, lr_score

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.spec import ModelSpec

DENSE = "intercept"


def planted_rows(seed: int, rows: int, fields: int = 4, keys: int = 60, repeat: float = 0.3, loss="log_loss") -> Batch:
    """Rows of distinct keys, one of each field and sometimes a second one, with labels of planted weights and pairs."""
    rng = np.random.default_rng(seed)
    weights, factors = rng.normal(size=keys), rng.normal(size=(keys, 3)) * 0.7
    names = rng.integers(0, 2**64, keys, dtype=np.uint64)
    names[:2] = 0, 2**64 - 1
    found, of_field, lengths, labels = [], [], [], []
    for _ in range(rows):
        fields_of_row = np.flatnonzero(rng.random(fields) < 0.9)
        fields_of_row = np.sort(np.append(fields_of_row, fields_of_row[rng.random(len(fields_of_row)) < repeat]))
        chosen = rng.choice(keys // fields, len(fields_of_row), replace=False) * fields + fields_of_row
        pairs = (factors[chosen].sum(axis=0) ** 2 - (factors[chosen] ** 2).sum(axis=0)).sum()
        z = weights[chosen].sum() + pairs / 2
        found.append(chosen)
        of_field.append(fields_of_row)
        lengths.append(len(chosen))
        labels.append(z + rng.normal() if loss == "squared_error" else rng.random() < 1 / (1 + np.exp(-z)))
    values = rng.uniform(0.5, 1.5, sum(lengths)) * rng.choice([-1, 1], sum(lengths), p=[0.1, 0.9])
    return Batch(
        names[np.concatenate(found)],
        np.concatenate(of_field).astype(np.uint16),
        values.astype(np.float32),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.array(labels, np.float32),
    )


def textbook_of(spec: ModelSpec) -> Textbook:
    """The textbook of a model of this description, with its first weights in float64."""
    scale = spec.initial_scale
    linear = int(spec.linear is not None)
    values = linear + {"lr": 0, "fm": spec.size, "ffm": spec.size * spec.fields}[spec.kind]
    initial = "uniform" if spec.kind == "ffm" else "normal"

    def first(key: int) -> list[float]:
        factors = [first_weight(spec.seed, key, place, scale, initial) for place in range(linear, values)]
        return [0.0] * linear + factors

    def settings(optimizer):
        if optimizer is None:
            return None
        names = [name for name in vars(optimizer)]
        return optimizer.name, {name: getattr(optimizer, name) for name in names}

    dense = settings(spec.dense) if spec.intercept else None
    return Textbook(
        spec.kind, spec.size, settings(spec.linear), settings(spec.factors), dense, first, spec.loss, spec.normalise
    )


def total_loss(spec: ModelSpec, batch: Batch, weights, index, bias: float) -> float:
    """Sum of the textbook losses of all rows, for weights [n, values] in float64."""
    linear = int(spec.linear is not None)
    total = 0.0
    for r in range(batch.rows):
        part = slice(batch.offsets[r], batch.offsets[r + 1])
        known = index[part] >= 0
        rows = [weights[at] for at in index[part][known]]
        fields, x = batch.fields[part][known].tolist(), batch.values[part].astype(np.float64)
        if spec.kind == "lr":
            score = lr_score(bias, rows, fields, x[known])
        elif spec.kind == "fm":
            score = fm_score(bias, rows, fields, x[known])
        else:
            score = bias + sum(row[0] * each for row, each in zip(rows, x[known], strict=True)) * linear
            pairs = ffm_score([row[linear:] for row in rows], fields, x[known], spec.size, normalise=False)
            score += pairs / (x @ x) if spec.normalise and len(x) else pairs
        total += loss_of(spec.loss, score, float(batch.labels[r]))
    return total


def numeric_gradients(spec: ModelSpec, batch: Batch, weights, index, bias: float, h: float = 1e-5):
    """Central differences of `total_loss` by the weights and by the intercept."""
    gradients = np.zeros_like(weights)
    for place in np.ndindex(*weights.shape):
        moved = [weights.copy(), weights.copy()]
        for each, sign in zip(moved, (1, -1), strict=True):
            each[place] += sign * h
        losses = [total_loss(spec, batch, each, index, bias) for each in moved]
        gradients[place] = (losses[0] - losses[1]) / (2 * h)
    by_bias = [total_loss(spec, batch, weights, index, bias + sign * h) for sign in (1, -1)]
    return gradients, (by_bias[0] - by_bias[1]) / (2 * h)
