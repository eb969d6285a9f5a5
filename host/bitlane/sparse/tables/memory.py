"""Arrays that grow and shrink where they lie, without a second copy."""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

CAN_MAP = sys.platform == "linux"  # others cannot resize a private mapping, or not without a copy
MAPPED_BYTES = 1 << 18  # from this size on, the last page of a mapping is less than 2 % of it
HUGE_PAGE = 1 << 21
ALIGNED_BYTES = 1 << 28  # from this size on, the last huge page is less than 1 %
_COLLAPSE = 25  # MADV_COLLAPSE of Linux 6.1: copy small pages into huge ones now


class ResizableArray:
    """An array whose first axis changes its length.

    From 256 KiB on it lies in a private mapping of its own. The kernel gives and takes pages at its end and moves none
    of the bytes (`mremap`), so that no copy exists at any moment. Below 256 KiB, and on systems other than Linux, it is
    copied, and two of it exist for that moment.

    A retained view goes stale and keeps the old mapping alive: the array is then copied.

    Parameters
    ----------
    dtype : data type
    row : tuple of int
        Shape of one element of the first axis.
    length : int
    offset : int, default=0
        Elements before the array: so that its second element, say, begins a line of the cache.

    Attributes
    ----------
    array : array [length, *row]
        New elements are zero.
    """

    def __init__(self, dtype: DTypeLike, row: tuple[int, ...], length: int, offset: int = 0):
        self.dtype = np.dtype(dtype)
        self.row = row
        self.array: NDArray[Any] = np.zeros((0, *row), self.dtype)
        self._row_bytes = int(np.prod(row, dtype=np.int64)) * self.dtype.itemsize
        self._offset = offset * self._row_bytes
        self._mapping: mmap.mmap | None = None
        self.resize(length)

    @property
    def nbytes(self) -> int:
        """Bytes held: full pages where the array is mapped."""
        return self.array.nbytes if self._mapping is None else len(self._mapping)

    def resize(self, length: int) -> None:
        """Change the length; the elements that both lengths have keep their values. MemoryError: nothing changes."""
        size = length * self._row_bytes + self._offset
        common = min(length, len(self.array))
        if size < MAPPED_BYTES or not CAN_MAP:
            array = np.zeros((length, *self.row), self.dtype)
            array[:common] = self.array[:common]
            self.array, self._mapping = array, None
            return
        page = HUGE_PAGE if size >= ALIGNED_BYTES else mmap.PAGESIZE
        size = -(-size // page) * page
        if self._mapping is None or not self._remap(self._mapping, size, length):
            old, self._mapping = self.array, _new_mapping(size)
            self._view(self._mapping, length)
            self.array[:common] = old[:common]
        if size >= 2 * HUGE_PAGE:
            with suppress(OSError):  # an older kernel does it in the background
                self._mapping.madvise(_COLLAPSE)

    def _view(self, mapping: mmap.mmap, length: int) -> None:
        count = length * self._row_bytes // self.dtype.itemsize
        self.array = np.frombuffer(mapping, self.dtype, count, self._offset).reshape((length, *self.row))

    def _remap(self, mapping: mmap.mmap, size: int, length: int) -> bool:
        """Resize the mapping; False if it cannot be."""
        before = len(self.array)
        self.array = np.zeros((0, *self.row), self.dtype)
        try:
            mapping.resize(size)
        except (BufferError, OSError, SystemError, ValueError):
            self._view(mapping, before)
            return False
        self._view(mapping, length)
        return True


def _new_mapping(size: int) -> mmap.mmap:
    """A private mapping of zeros, in huge pages where the system has them, for fewer misses of the address cache."""
    try:
        mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"Unable to map {size:,} bytes") from error
    with suppress(OSError):  # a kernel without huge pages
        mapping.madvise(mmap.MADV_HUGEPAGE)
    return mapping
