"""Updates as records of the log, and arrays side by side."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.servers.steps import no_floats
from bitlane.sparse.servers.updates import BEGIN, STEP, Update, join_dense, split_dense


@pytest.mark.parametrize("kind", [BEGIN, STEP])
def test_a_record_is_the_update(seed: int, kind: int) -> None:
    data = np.frombuffer(np.random.default_rng(seed).bytes(seed % 40), np.uint8)
    update = Update(kind, "wörker", 1 << 40, data)
    record = memoryview(b"".join(update.buffers()))
    read = Update.from_record(record)
    assert (read.kind, read.worker, read.sequence) == (kind, "wörker", 1 << 40)
    assert np.array_equal(read.payload, data)


def test_a_record_of_another_kind_is_refused() -> None:
    record = b"".join(Update(2, "w", 1, no_floats().view(np.uint8)).buffers())
    with pytest.raises(DataError, match="has the kind 2: another version of bitlane wrote it"):
        Update.from_record(memoryview(record))


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
