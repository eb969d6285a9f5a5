"""Strategies that the property tests of codecs share; `tests/conftest.py` has their settings."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st


def share(fraction: float) -> settings:
    """A setting for a test whose examples are long: this fraction of the examples of others, five at least."""
    return settings(max_examples=max(5, round(settings.default.max_examples * fraction)))


SEEDS = st.integers(0, 2**32 - 1)
WORDS = st.integers(0, 2**32 - 1)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def runs(longest: int, most: int = 5) -> st.SearchStrategy[list[int]]:
    """Lengths of up to `most` runs of values, some of them empty."""
    return st.lists(st.integers(0, longest), max_size=most)


def index_sets(largest: int = 2000) -> st.SearchStrategy[tuple[list[int], int]]:
    """Ascending indices, and the length of their vector."""

    def of_length(n: int) -> st.SearchStrategy[tuple[list[int], int]]:
        indices = st.sets(st.integers(0, n - 1), max_size=200).map(sorted) if n else st.just([])
        return st.tuples(indices, st.just(n))

    return st.integers(0, largest).flatmap(of_length)


def damage(length: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    """One to three bytes of `length` to overwrite: index and value."""
    return st.lists(st.tuples(st.integers(0, length - 1), st.integers(0, 255)), min_size=1, max_size=3)


def damaged(data: bytes, changes: list[tuple[int, int]]) -> bytes:
    """The bytes with these changes."""
    changed = bytearray(data)
    for index, value in changes:
        changed[index] = value
    return bytes(changed)
