"""What the tests of frozen tables share: dicts of rows, tables of dicts."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from tests.helpers.sparse_tables import FULL, KEYS, mixed, unmixed

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.tables.frozen import FrozenTable, freeze

CLUSTERED = st.integers(0, 2000).map(lambda low: unmixed((0x1234 << 48) + low))  # all in one bucket
KEY_SETS = st.sets(KEYS | CLUSTERED, max_size=80)


def random_keys(rng: np.random.Generator, count: int) -> list[int]:
    """Distinct keys, the largest word's one among them."""
    found = {unmixed(FULL), unmixed(0), *rng.integers(0, FULL, count, np.uint64, endpoint=True).tolist()}
    return list(found)


def random_rows(rng: np.random.Generator, keys, width: int) -> dict[int, np.ndarray]:
    return {key: rng.standard_normal(width).astype(np.float32) for key in keys}


def frozen(rows: dict[int, np.ndarray], width: int, codebook=None, chunk: int = 7) -> FrozenTable:
    """The table of a dict, in chunks of a few rows."""
    keys = sorted(rows, key=mixed)

    def chunks():
        for at in range(0, len(keys), chunk):
            part = keys[at : at + chunk]
            yield np.array(part, np.uint64), np.array([rows[key] for key in part], np.float32).reshape(len(part), width)

    return freeze(chunks(), len(keys), width, codebook)


def contents(table: FrozenTable, chunk: int = 1 << 16) -> dict[int, bytes]:
    """All keys of a table, with the bytes of their rows."""
    found = {}
    for keys, rows in table.items(chunk):
        found.update({key: row.tobytes() for key, row in zip(keys.tolist(), rows, strict=True)})
    return found


def bytes_of(table: FrozenTable) -> bytes:
    return b"".join(table.buffers())


def request_of(keys, lengths) -> Batch:
    """Rows of these lengths with values of 1, of one field, without labels."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    count, rows = int(offsets[-1]), len(offsets) - 1
    return Batch(
        np.array(keys, np.uint64),
        np.zeros(count, np.uint16),
        np.ones(count, np.float32),
        offsets,
        np.zeros(rows, np.float32),
    )
