"""Arrays that change their length keep their values, at any size, and while somebody holds a view."""

from __future__ import annotations

import errno
import mmap

import numpy as np
import pytest

from bitlane.sparse.tables import memory
from bitlane.sparse.tables.memory import MAPPED_BYTES, ResizableArray

SMALL, LARGE, HUGE = 100, MAPPED_BYTES // 8, 8 * MAPPED_BYTES


@pytest.mark.parametrize("sizes", [(SMALL, 2 * SMALL, 30), (SMALL, LARGE, HUGE, LARGE + 1, SMALL), (HUGE, 0, HUGE)])
@pytest.mark.parametrize("offset", [0, 7])
def test_values_stay_and_new_ones_are_zero(seed, sizes, offset):
    rng = np.random.default_rng(seed)
    array = ResizableArray(np.uint64, (), sizes[0], offset)
    expected = np.zeros(sizes[0], np.uint64)
    for size in sizes[1:]:
        expected[:] = array.array[:] = rng.integers(1, 1 << 62, len(expected), dtype=np.uint64)
        array.resize(size)
        kept = min(size, len(expected))
        expected = np.concatenate([expected[:kept], np.zeros(size - kept, np.uint64)])
        np.testing.assert_array_equal(array.array, expected)
        assert array.array.nbytes <= array.nbytes < array.array.nbytes + 8 * offset + mmap.PAGESIZE


def test_a_large_array_begins_beside_a_line():
    """With seven elements before it, its second one begins a line of 64 bytes."""
    array = ResizableArray(np.uint64, (), LARGE, 7)
    assert array.array[1:].ctypes.data % 64 == 0


def test_growth_of_a_large_array_copies_nothing():
    array = ResizableArray(np.float32, (3,), LARGE)
    mapping = array._mapping
    assert mapping is not None
    for length in (LARGE + 1, 2 * LARGE, HUGE, 2 * LARGE):
        array.resize(length)
        assert array._mapping is mapping and array.array.shape == (length, 3)


@pytest.mark.parametrize("size", [HUGE, LARGE, SMALL])
def test_a_view_that_is_held_shows_the_old_values(seed, size):
    array = ResizableArray(np.float32, (2,), 2 * LARGE)
    array.array[:] = np.random.default_rng(seed).random(array.array.shape)
    view = array.array[5:]
    before = view.copy()
    array.resize(size)
    kept = min(size, 2 * LARGE)
    np.testing.assert_array_equal(array.array[5:kept], before[: kept - 5])
    array.array[:] = -1
    np.testing.assert_array_equal(view, before)


def test_a_mapping_that_cannot_be_resized(seed, monkeypatch):
    class Fixed(mmap.mmap):
        def resize(self, size):
            raise OSError("Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", Fixed)
    array = ResizableArray(np.float32, (), 2 * LARGE)
    values = np.random.default_rng(seed).random(2 * LARGE, np.float32)
    array.array[:] = values
    array.resize(4 * LARGE)
    np.testing.assert_array_equal(array.array[: 2 * LARGE], values)
    assert not array.array[2 * LARGE :].any()


def test_without_memory_nothing_changes(seed, monkeypatch):
    array = ResizableArray(np.float32, (), 2 * LARGE)
    array.array[:] = values = np.random.default_rng(seed).random(2 * LARGE, np.float32)
    held = array.array  # no resizing in place

    def refuse(*_, **__):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(mmap, "mmap", refuse)
        with pytest.raises(MemoryError, match=r"^Unable to map [\d,]+ bytes$"):
            array.resize(4 * LARGE)
    np.testing.assert_array_equal(array.array, values)
    array.resize(4 * LARGE)
    np.testing.assert_array_equal(array.array[: len(held)], held)


def test_other_systems_copy(seed, monkeypatch):
    monkeypatch.setattr(memory, "CAN_MAP", False)
    array = ResizableArray(np.float32, (), 2 * LARGE)
    values = np.random.default_rng(seed).random(2 * LARGE, np.float32)
    array.array[:] = values
    array.resize(HUGE)
    np.testing.assert_array_equal(array.array[: 2 * LARGE], values)
    assert array._mapping is None and array.nbytes == 4 * HUGE and not array.array[2 * LARGE :].any()
