"""Tables of the map: real ones from `BITLANE_DATA`, and generated ones with correlated columns and noisy labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bitlane.data.datasets import load_dataset

from .problems import Floats

FACTORS = 4  # columns to a shared factor
OWN = 0.5  # standard deviation of what a column has of its own, over that of its shared part
FIELDS = 20  # of one-hot tables


def real(name: str, labels: str) -> tuple[Floats, Floats]:
    """Return a data set's training rows in random order, and labels.

    Parameters
    ----------
    name : str
        Of `bitlane.data.datasets`.
    labels : {"numbers", "classes", "first"}
        Numbers as they are; -1 and 1 for each class; or only the first class against the rest.
    """
    data = load_dataset(name)
    order = np.random.default_rng(0).permutation(data.rows)
    return np.ascontiguousarray(np.asarray(data.X, np.float32)[order]), targets(np.asarray(data.y)[order], labels)


def targets(y: np.ndarray, labels: str) -> Floats:
    """Return float32 labels [rows, targets]; see `real`."""
    if labels == "numbers":
        return np.asarray(y, np.float32).reshape(len(y), -1)
    classes = np.unique(y)
    chosen = classes[:1] if labels == "first" else classes
    return np.asarray(np.where(y[:, None] == chosen, 1, -1), np.float32)


def dense(rows: int, columns: int, labels: str, seed: int = 0) -> tuple[Floats, Floats]:
    """Return correlated columns of several scales.

    Each column is a sum over `columns` / `FACTORS` normal factors plus noise of its own with `OWN` times the deviation,
    times a log-normal scale, plus an offset of about one deviation. Numbers are linear in the factors' columns, half of
    their variance being noise; classes are the signs of such numbers with a quarter of it.
    """
    rng = np.random.default_rng(seed)
    factors = max(1, columns // FACTORS)
    mixing = rng.standard_normal((factors, columns), np.float32) / np.sqrt(np.float32(factors))
    scale = rng.lognormal(0, 1, columns).astype(np.float32)
    offset = rng.standard_normal(columns, np.float32) * scale
    weights = rng.standard_normal(columns, np.float32)
    X, signal = np.empty((rows, columns), np.float32), np.empty(rows, np.float32)
    for first in range(0, rows, 1 << 14):
        block = X[first : first + (1 << 14)]
        block[:] = rng.standard_normal((len(block), factors), np.float32) @ mixing
        block += np.float32(OWN) * rng.standard_normal(block.shape, np.float32)
        signal[first : first + len(block)] = block @ weights
        block *= scale
        block += offset
    signal /= signal.std()
    return X, _labelled(signal, labels, rng)


def one_hot(rows: int, columns: int, labels: str, seed: int = 0) -> tuple[Floats, Floats]:
    """Return `FIELDS` fields of equally many values each, which follow Zipf's law; labels as `dense`."""
    rng = np.random.default_rng(seed)
    values = max(2, columns // FIELDS)
    fields = max(1, columns // values)
    chances = 1 / np.arange(1, values + 1)
    chosen = rng.choice(values, (rows, fields), p=chances / chances.sum())
    X = np.zeros((rows, fields * values), np.float32)
    X[np.arange(rows)[:, None], chosen + values * np.arange(fields)] = 1
    signal = X @ rng.standard_normal(X.shape[1], np.float32)
    signal -= signal.mean(dtype=np.float32)
    return X, _labelled(signal / signal.std(), labels, rng)


def _labelled(signal: Floats, labels: str, rng: np.random.Generator) -> Floats:
    noise = rng.standard_normal(len(signal), np.float32)
    if labels == "numbers":
        return (signal + noise)[:, None]
    return np.asarray(np.where(signal + 0.5 * noise > 0, 1, -1)[:, None], np.float32)


KINDS: dict[str, Callable[[int, int, str], tuple[Floats, Floats]]] = {"dense": dense, "one-hot": one_hot}
