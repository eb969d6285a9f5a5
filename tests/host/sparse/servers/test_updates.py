"""Updates as records of the log, and arrays side by side."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.servers.updates import CREATE, PUSH, PUSH_DENSE, TICK, Update, join_dense, split_dense


@pytest.mark.parametrize("kind", [CREATE, PUSH, PUSH_DENSE, TICK])
def test_a_record_is_the_update(seed: int, kind: int) -> None:
    draw = np.random.default_rng(seed)
    count = int(draw.integers(0, 5))
    keys = draw.integers(0, 1 << 64, count if kind in (CREATE, PUSH) else 0, np.uint64)
    shape = (count, 3) if kind == PUSH else (7 if kind == PUSH_DENSE else 0,)
    gradients = draw.normal(size=shape).astype(np.float32)
    update = Update(kind, "wörker", 1 << 40, 12, keys, gradients)
    found = Update.from_record(memoryview(b"".join(update.buffers())), 3)
    assert (found.kind, found.worker, found.sequence, found.rows_seen) == (kind, "wörker", 1 << 40, 12)
    assert np.array_equal(found.keys, keys) and found.gradients.shape == gradients.shape
    assert found.gradients.tobytes() == gradients.tobytes()


def test_matrices_lie_side_by_side_in_the_order_of_their_names() -> None:
    shapes = {"b": Matrix((2, 2), SGD()), "a": Matrix((3,), SGD())}
    arrays = {"b": np.arange(4, dtype=np.float32).reshape(2, 2), "a": np.arange(10, 13, dtype=np.float32)}
    joined = join_dense(arrays)
    assert joined.tolist() == [10, 11, 12, 0, 1, 2, 3]
    found = split_dense(joined, shapes)
    assert all(np.array_equal(found[name], arrays[name]) for name in arrays)
    assert split_dense(join_dense({}), {}) == {}
    with pytest.raises(DataError, match=r"the matrices have 7 values; got \[6\]"):
        split_dense(joined[:6], shapes)
