"""Messages: arrays without copies, errors by name."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers import wire


def test_batches_share_the_memory_of_arrays(seed: int) -> None:
    draw = np.random.default_rng(seed)
    keys, data = draw.integers(0, 1 << 64, 9, np.uint64), draw.integers(0, 256, 9, np.uint8)
    for array, batch, schema in (
        (keys, wire.key_batch(keys), wire.KEY_SCHEMA),
        (data, wire.byte_batch(data), wire.BYTE_SCHEMA),
    ):
        column = wire.array_of(batch, 0, array.dtype)
        assert batch.schema == schema and np.array_equal(column, array)
        assert np.shares_memory(column, array) and column.flags.writeable


def test_slices_and_odd_addresses_are_read_rightly() -> None:
    memory = bytes(3) + np.arange(5, dtype=np.uint64).tobytes()
    buffer = wire.pyarrow.py_buffer(memory).slice(3)
    column = wire.pyarrow.Array.from_buffers(wire.pyarrow.uint64(), 5, [None, buffer])
    batch = wire.pyarrow.record_batch([column], names=["key"])
    found = wire.array_of(batch, 0, np.uint64)
    assert found.tolist() == [0, 1, 2, 3, 4] and found.flags.aligned
    assert wire.array_of(batch.slice(2, 2), 0, np.uint64).tolist() == [2, 3]
    assert wire.array_of(batch.slice(2, 0), 0, np.uint64).tolist() == []


@pytest.mark.parametrize("name", wire.ERRORS)
def test_errors_have_names(name: str) -> None:
    record = wire.error_record(wire.ERRORS[name]("two\nlines"))
    assert record == {"error": name, "message": "two lines"}


def test_other_errors_are_the_servers() -> None:
    assert wire.error_record(ValueError("two\nlines")) == {"error": "server", "message": "ValueError: two lines"}
    with pytest.raises(DataError, match="not a message of bitlane"):
        wire.from_bytes(b"{")
    assert issubclass(wire.ServerBusy, BitlaneError)
