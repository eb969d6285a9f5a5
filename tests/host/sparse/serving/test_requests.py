"""Parts that are lent: fields of 0 and values of 1."""

from __future__ import annotations

import numpy as np

from bitlane.sparse.serving.requests import batch_of


def test_lent_parts_have_the_right_size_and_content() -> None:
    for nnz in (0, 5, 3, 1000, 10):
        batch = batch_of(np.zeros(nnz, np.uint64), np.array([0, nnz], np.int64))
        assert batch.fields.tolist() == [0] * nnz and batch.values.tolist() == [1.0] * nnz
        assert batch.values.flags.writeable and batch.fields.flags.writeable  # kernels are compiled for such arrays
