"""Sparse rows as text and back, in plain Python: the oracle of the readers."""

from __future__ import annotations

import numpy as np

from bitlane.sparse.batches.batch import Batch

Row = tuple[float, list[tuple[int, int, float]]]  # label; field, key and value of each feature


def random_batch(rng: np.random.Generator, rows: int, *, most: int = 6, times: bool = False) -> Batch:
    """Rows of 0 to `most` features with any keys, some fields, float32 values, and labels 0 and 1."""
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, most + 1, rows))]).astype(np.int64)
    nnz = int(offsets[-1])
    return Batch(
        rng.integers(0, 2**64 - 1, nnz, dtype=np.uint64, endpoint=True),
        rng.integers(0, 40, nnz).astype(np.uint16),
        rng.choice([1.0, 0.5, -3.25, 1e-7, 2.5e8, rng.normal(), rng.normal()], nnz).astype(np.float32),
        offsets,
        rng.integers(0, 2, rows).astype(np.float32),
        rng.integers(0, 2**33, rows) if times else None,
    )


def rows_of(batch: Batch) -> list[Row]:
    """Each row as its label and features."""
    features = list(zip(batch.fields.tolist(), batch.keys.tolist(), batch.values.tolist(), strict=True))
    bounds = batch.offsets.tolist()
    labels = batch.labels.tolist()
    return [(labels[row], features[bounds[row] : bounds[row + 1]]) for row in range(batch.rows)]


def lines_of(batch: Batch, layout: str) -> bytes:
    """The rows as lines of libsvm or libffm."""
    lines = []
    for label, features in rows_of(batch):
        cells = [
            f"{field}:{key}:{value!r}" if layout == "libffm" else f"{key}:{value!r}" for field, key, value in features
        ]
        lines.append(" ".join([f"{label:g}", *cells]) + "\n")
    return "".join(lines).encode()


def parsed(text: bytes, layout: str) -> list[Row]:
    """The rows of lines of libsvm or libffm."""
    found = []
    for line in text.decode().replace("\r\n", "\n").split("\n"):
        words = line.partition("#")[0].split()
        if not words:
            continue
        features = []
        for word in words[1:]:
            parts = word.split(":")
            field = int(parts.pop(0)) if layout == "libffm" else 0
            features.append((field, int(parts[0]), float(np.float32(float(parts[1])))))
        found.append((max(float(words[0]), 0.0), features))
    return found


def without_fields(rows: list[Row]) -> list[Row]:
    """The rows with field 0 everywhere, as libsvm has them."""
    return [(label, [(0, key, value) for _, key, value in features]) for label, features in rows]


def assert_same(found: Batch, wanted: Batch) -> None:
    """Both batches have the same bits."""
    for name in ("keys", "fields", "values", "offsets", "labels"):
        assert_same_array(getattr(found, name), getattr(wanted, name), name)
    assert (found.times is None) == (wanted.times is None)
    if found.times is not None and wanted.times is not None:
        assert_same_array(found.times, wanted.times, "times")


def assert_same_array(actual: np.ndarray, expected: np.ndarray, name: str) -> None:
    """Assert that shapes, types and values are the same; numpy's own `strict=True` needs numpy 1.24."""
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), name
    np.testing.assert_array_equal(actual, expected, err_msg=name)
