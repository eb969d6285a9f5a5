"""Layers and shards of frozen tables against dicts."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.frozen_tables import frozen, random_keys, random_rows

pytest.importorskip("numba")

from bitlane.errors import DataError
from bitlane.sparse.scoring.layers import LayeredTable, PartitionedTable, overlaid
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.tables.codebooks import fit_codebook


def expect(table, rows: dict, asked: list[int], width: int, gone: set[int] = frozenset()) -> None:
    """The table has the rows of a dict; keys that are gone may be known, with weights of 0."""
    weights, found = table.lookup(np.array(asked, np.uint64))
    assert weights.dtype == np.float32 and found.dtype == np.bool_
    nothing = np.zeros(width, np.float32)
    assert weights.tobytes() == b"".join(rows.get(key, nothing).tobytes() for key in asked)
    assert all(has == (key in rows) for key, has in zip(asked, found.tolist(), strict=True) if key not in gone)


@pytest.mark.parametrize("bits", [None, 8])
def test_deltas_above_a_base(seed, bits):
    """Five deltas with changed, added and removed rows, and keys that come back."""
    rng = np.random.default_rng(seed)
    codebook = None if bits is None else fit_codebook(rng.standard_normal((200, 2)).astype(np.float32), bits)

    def stored(rows):
        table = frozen(rows, 2, codebook)
        return table, {int(key): row for keys, found in table.items() for key, row in zip(keys, found, strict=True)}

    keys = random_keys(rng, 400)
    base, rows = stored(random_rows(rng, keys[:300], 2))
    overlay, gone = None, set()
    for _ in range(5):
        chosen = rng.choice(len(keys), 60, replace=False).tolist()
        changed, new = stored(random_rows(rng, [keys[i] for i in chosen[:40]], 2))
        removed = {keys[i] for i in chosen[40:]} & rows.keys()
        overlay = overlaid(overlay, changed, frozen({key: np.zeros(0) for key in removed}, 0))
        rows = {key: row for key, row in {**rows, **new}.items() if key not in removed}
        gone |= removed
        table = LayeredTable(base, overlay)
        expect(table, rows, rng.permutation(np.array(keys, np.uint64)).tolist(), 2, gone)
        assert table.nbytes == base.nbytes + overlay.nbytes
        listed = [
            (int(key), row.tobytes()) for keys_, found in table.items() for key, row in zip(keys_, found, strict=True)
        ]
        nothing = np.zeros(2, np.float32)
        assert len(dict(listed)) == len(listed) and rows.keys() <= dict(listed).keys() <= rows.keys() | gone
        assert all(row == rows.get(key, nothing).tobytes() for key, row in listed)


def test_an_empty_overlay_is_none():
    base = frozen({1: np.float32([1])}, 1)
    assert LayeredTable(base, frozen({}, 1)).overlay is None
    with pytest.raises(DataError, match="1 weights a row, the layer above it 2"):
        LayeredTable(base, frozen({}, 2))


@pytest.mark.parametrize("servers", [1, 2, 5])
def test_shards_answer_as_one_table(seed, servers):
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, random_keys(rng, 1000), 3)
    partition = Partition(servers)
    owners = dict(zip(rows, partition.owners(np.array(list(rows), np.uint64)).tolist(), strict=True))
    parts = [{key: row for key, row in rows.items() if owners[key] == server} for server in range(servers)]
    table = PartitionedTable([LayeredTable(frozen(part, 3)) for part in parts], partition)
    asked = [*rows, *random_keys(rng, 300)]
    expect(table, rows, asked, 3)
    expect(table, rows, [], 3)
    assert table.nbytes == sum(each.nbytes for each in table.tables)
    with pytest.raises(DataError, match="as many tables"):
        PartitionedTable(table.tables, Partition(servers + 1))
