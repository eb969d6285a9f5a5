"""Random sparse rows, and rows as plain tuples."""

from __future__ import annotations

import numpy as np

from bitlane.sparse.batches.batch import Batch


def random_rows(rng, rows=50, ones=False):
    """Return rows of 0 to 5 features of 9 keys; each half has both classes."""
    lengths = rng.integers(0, 6, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    nnz = int(offsets[-1])
    labels = rng.integers(0, 2, rows).astype(np.float32)
    for half in (labels[: rows // 2], labels[rows // 2 :]):
        half[::2], half[1::2] = 0, 1
    return Batch(
        rng.choice(rng.integers(0, 1 << 63, 9, dtype=np.uint64), nnz),
        rng.integers(0, 4, nnz).astype(np.uint16),
        np.ones(nnz, np.float32) if ones else rng.normal(size=nnz).astype(np.float32),
        offsets,
        labels,
    )


def rows_of(batch, with_fields):
    """Return each row as label, and the features as tuples."""
    found = []
    for r in range(batch.rows):
        span = slice(batch.offsets[r], batch.offsets[r + 1])
        features = [batch.keys[span].tolist(), batch.values[span].tolist()]
        features = [batch.fields[span].tolist(), *features] if with_fields else features
        found.append((float(batch.labels[r]), list(zip(*features, strict=True))))
    return found
