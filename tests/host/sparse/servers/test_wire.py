"""Messages: arrays without copies, errors by name."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers import wire


def test_batches_share_the_memory_of_arrays(seed: int) -> None:
    draw = np.random.default_rng(seed)
    keys, gradients = draw.integers(0, 1 << 64, 9, np.uint64), draw.normal(size=(9, 4)).astype(np.float32)
    batch = wire.gradient_batch(keys, gradients)
    assert batch.schema == wire.request_schema("push", 4)
    found = wire.array_of(batch, 0, np.uint64), wire.array_of(batch, 1, np.float32)
    assert np.array_equal(found[0], keys) and np.array_equal(found[1], gradients)
    assert np.shares_memory(found[0], keys) and np.shares_memory(found[1], gradients)
    assert found[0].flags.writeable and found[1].flags.writeable


def test_slices_and_odd_addresses_are_read_rightly() -> None:
    memory = bytes(3) + np.arange(5, dtype=np.uint64).tobytes()
    buffer = wire.pyarrow.py_buffer(memory).slice(3)
    column = wire.pyarrow.Array.from_buffers(wire.pyarrow.uint64(), 5, [None, buffer])
    batch = wire.pyarrow.record_batch([column], names=["key"])
    found = wire.array_of(batch, 0, np.uint64)
    assert found.tolist() == [0, 1, 2, 3, 4] and found.flags.aligned
    assert wire.array_of(batch.slice(2, 2), 0, np.uint64).tolist() == [2, 3]
    rows = wire.row_batch(np.arange(12, dtype=np.float32).reshape(4, 3))
    assert wire.array_of(rows.slice(1, 2), 0, np.float32).tolist() == [[3, 4, 5], [6, 7, 8]]
    assert wire.array_of(rows.slice(1, 0), 0, np.float32).shape == (0, 3)
    items = wire.pyarrow.array(np.arange(13, dtype=np.float32)).slice(1)
    lists = wire.pyarrow.FixedSizeListArray.from_arrays(items, 3)
    batch = wire.pyarrow.record_batch([lists], names=["row"])
    assert wire.array_of(batch.slice(2, 1), 0, np.float32).tolist() == [[7, 8, 9]]


@pytest.mark.parametrize("name", wire.ERRORS)
def test_errors_have_names(name: str) -> None:
    record = wire.error_record(wire.ERRORS[name]("two\nlines"))
    assert record == {"error": name, "message": "two lines"}


def test_other_errors_are_the_servers() -> None:
    assert wire.error_record(ValueError("two\nlines")) == {"error": "server", "message": "ValueError: two lines"}
    with pytest.raises(DataError, match="not a message of bitlane"):
        wire.from_bytes(b"{")
    assert issubclass(wire.ServerBusy, BitlaneError)
