"""Shared features are those of each row, before its own."""

from __future__ import annotations

import numpy as np
from tests.helpers.sparse_serving import random_model, random_request

from bitlane.sparse.serving.requests import RequestBounds
from bitlane.sparse.serving.sharing import spread_shared


def test_rows_are_the_shared_ones_and_their_own(seed: int) -> None:
    for each in range(20):
        batch = random_request(random_model(seed), seed + each, rows=1 + each)
        found = spread_shared(batch, RequestBounds())
        assert found.rows == batch.rows - 1
        for name in ("keys", "fields", "values"):
            part, cuts = getattr(batch, name), batch.offsets
            wanted = [[*part[: cuts[1]], *part[cuts[r] : cuts[r + 1]]] for r in range(1, batch.rows)]
            mine = [getattr(found, name)[found.offsets[r] : found.offsets[r + 1]].tolist() for r in range(found.rows)]
            assert mine == [[item.item() for item in row] for row in wanted]
        assert found.offsets[-1] == found.nnz and found.offsets.dtype == np.int64
