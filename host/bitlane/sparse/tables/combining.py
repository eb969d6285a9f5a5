"""Frozen tables above others: what changed from one to the next, and both as one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bitlane.errors import DataError
from bitlane.sparse.tables.frozen import FrozenTable, Keys, Rows, freeze
from bitlane.sparse.tables.mixing import words_of


def merge(below: FrozenTable, above: FrozenTable, deleted: FrozenTable | None = None) -> FrozenTable:
    """Return the rows of `above`, and those rows of `below` whose keys neither `above` nor `deleted` has.

    Parameters
    ----------
    below, above : FrozenTable
        Of equal width and codebook.
    deleted : FrozenTable, optional
        Keys that `above` does not have.

    Raises
    ------
    DataError
        Other widths or codebooks.
    """
    _check_alike(below, above)
    gone = [above] if deleted is None else [above, deleted]
    hidden = sum(int(np.count_nonzero(below.find(keys) >= 0)) for each in gone for keys, _ in each.items())
    count = len(below) - hidden + len(above)
    return freeze(_merged(below, above, gone), count, below.width, below.codebook)


def difference(old: FrozenTable, new: FrozenTable) -> tuple[FrozenTable, FrozenTable]:
    """Return what makes `new` of `old`: ``merge(old, *difference(old, new))`` has the bytes of `new`.

    Parameters
    ----------
    old, new : FrozenTable
        Of equal width and codebook.

    Returns
    -------
    changed : FrozenTable
        The rows of `new` that `old` does not have to the bit.
    deleted : FrozenTable
        Of width 0: the keys of `old` that `new` does not have.
    """
    _check_alike(old, new)
    return table_of(_changed(old, new), new.width, new), table_of(_missing(old, new), 0)


def table_of(chunks: Iterator[tuple[Keys, Rows]], width: int, like: FrozenTable | None = None) -> FrozenTable:
    """Return the frozen table of chunks whose number of keys is not known before, with the codebook of `like`."""
    stored = [(keys, rows) for keys, rows in chunks if len(keys)]
    return freeze(stored, sum(len(keys) for keys, _ in stored), width, None if like is None else like.codebook)


def sorted_rows(keys: Keys, rows: Rows) -> tuple[Keys, Rows]:
    """Return distinct keys and their rows in the order of words."""
    order = np.argsort(words_of(keys), kind="stable")  # fast where runs are in order already
    return keys[order], rows[order]


def all_items(table: FrozenTable) -> tuple[Keys, Rows]:
    """Return all keys, uint64 [n], and rows, float32 [n, width], in the order of words."""
    return next(table.items(max(1, len(table))), (np.zeros(0, np.uint64), np.zeros((0, table.width), np.float32)))


def _merged(below: FrozenTable, above: FrozenTable, gone: list[FrozenTable]) -> Iterator[tuple[Keys, Rows]]:
    upper_keys, upper_rows = all_items(above)
    upper_words, done = words_of(upper_keys), 0
    for keys, rows in below.items():
        end = int(np.searchsorted(upper_words, words_of(keys[-1:])[0], side="right"))
        visible = np.ones(len(keys), np.bool_)
        for table in gone:
            visible &= table.find(keys) < 0
        keys, rows = keys[visible], rows[visible]
        if end > done:
            keys, rows = np.concatenate([keys, upper_keys[done:end]]), np.concatenate([rows, upper_rows[done:end]])
            keys, rows = sorted_rows(keys, rows)
        yield keys, rows
        done = end
    yield upper_keys[done:], upper_rows[done:]


def _changed(old: FrozenTable, new: FrozenTable) -> Iterator[tuple[Keys, Rows]]:
    for keys, rows in new.items():
        ranks = old.find(keys)
        before = old.read(ranks)
        changed = (ranks < 0) | (before.view(np.uint32) != rows.view(np.uint32)).any(axis=1)
        yield keys[changed], rows[changed]


def _missing(old: FrozenTable, new: FrozenTable) -> Iterator[tuple[Keys, Rows]]:
    for keys, _ in old.items():
        gone = keys[new.find(keys) < 0]
        yield gone, np.zeros((len(gone), 0), np.float32)


def _check_alike(one: FrozenTable, other: FrozenTable) -> None:
    if one.width != other.width:
        raise DataError(f"one table has {one.width} values a row, the other {other.width}")
    if one.codebook != other.codebook:
        raise DataError("the tables have different levels: rows of one cannot replace rows of the other")
