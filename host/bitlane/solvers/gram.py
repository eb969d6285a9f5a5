"""Exact Gram matrices of tables of small integers: `gram.c`, built on this machine, or numpy with the same result."""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.coded_rows import Codes
from bitlane.support.c_library import BYTE_PRODUCTS, LibraryError, cpu_flags, load_library
from bitlane.support.processors import processors

Integers = NDArray[np.int64]

SOURCE = Path(__file__).with_name("gram.c")
SLICE = 512  # rows whose packed codes stay in a processor's cache
PANEL = 48  # columns of a panel: a multiple of the sizes of all tiles
CONSTANTS = {"SLICE": str(SLICE), "PANEL": str(PANEL)}
# Rows whose sums of products of two codes, each at most 2**14, are exact in float32, in any order of additions.
FLOAT32_ROWS = (1 << 24) >> 14
SLICES_OF_THREAD = 2  # that are packed before the threads wait for each other

_logger = logging.getLogger(__name__)


class GramSum:
    """Sum of the Gram matrices of blocks of rows, exact in 64 bits.

    Parameters
    ----------
    columns : int
        m.
    threads : int, optional
        By default one for each processor. The result does not depend on them.
    """

    def __init__(self, columns: int, threads: int | None = None):
        self.rows = 0
        self._columns, self._threads = columns, threads or processors()
        self._kernels = gram_kernels()
        self._panels = -(-(columns + 1) // PANEL)  # of the columns and of ones, whose products are the sums
        self._gram = np.zeros((self._panels * PANEL,) * 2, np.int64)
        self._buffers: list[_PackedSlice] = []

    def add(self, *parts: Codes) -> None:
        """Add rows, given as int8 arrays [rows, m_k] that lie side by side; the sum of all m_k is m."""
        count = len(parts[0])
        self.rows += count
        codes = [np.ascontiguousarray(part) for part in (*parts, np.ones((count, 1), np.int8))]
        if self._kernels is None:
            self._add_by_numpy(codes)
            return
        starts = range(0, count, SLICE)
        together = SLICES_OF_THREAD * self._threads if self._threads > 1 else 1
        for first in range(0, len(starts), together):
            self._add_slices(self._kernels, codes, starts[first : first + together])

    def matrix(self) -> Integers:
        """Return the sum of q q' over all rows, int64 [m, m]."""
        m = self._columns
        found = np.array(self._gram[:m, :m])
        if self._kernels and self._kernels.offset:
            found -= self._kernels.offset * self.sums()[:, None]
        for first in range(0, m, PANEL):  # mirrors the upper half, in blocks that stay in a cache
            rest = slice(first + PANEL, m)
            block = found[first : first + PANEL, first : first + PANEL]
            block[:] = np.triu(block) + np.triu(block, 1).T
            found[rest, first : first + PANEL] = found[first : first + PANEL, rest].T
        return found

    def sums(self) -> Integers:
        """Return the sum of q over all rows, int64 [m]."""
        m = self._columns
        offset = self._kernels.offset if self._kernels else 0
        return np.asarray(self._gram[:m, m] // (1 + offset))

    def _add_slices(self, kernels: GramKernels, codes: list[Codes], starts: range) -> None:
        while len(self._buffers) < len(starts):
            self._buffers.append(_PackedSlice.of(self._panels * PANEL * (SLICE // kernels.unit)))
        counts = [min(SLICE, len(codes[0]) - start) for start in starts]
        threads = min(self._threads, self._panels)

        def pack(index: int) -> None:
            first, rows = 0, slice(starts[index], starts[index] + SLICE)
            for part in codes:
                kernels.pack(part[rows], first, self._buffers[index])
                first += part.shape[1]

        def multiply(thread: int) -> None:
            for packed, count in zip(self._buffers, counts, strict=False):
                kernels.multiply(packed, count, self._columns + 1, range(thread, self._panels, threads), self._gram)

        _in_threads(pack, range(len(starts)), self._threads)
        _in_threads(multiply, range(threads), threads)

    def _add_by_numpy(self, codes: list[Codes]) -> None:
        width = self._columns + 1
        for start in range(0, len(codes[0]), FLOAT32_ROWS):
            rows = np.concatenate([part[start : start + FLOAT32_ROWS] for part in codes], axis=1, dtype=np.float32)
            self._gram[:width, :width] += (rows.T @ rows).astype(np.int64)


@dataclass(frozen=True)
class _PackedSlice:
    """The units of rows and of columns of a slice."""

    rows: NDArray[np.uint32]
    shifted: NDArray[np.uint32]

    @staticmethod
    def of(units: int) -> _PackedSlice:
        return _PackedSlice(np.zeros(units, np.uint32), np.zeros(units, np.uint32))


class GramKernels:
    """The functions of a library that was built from `gram.c`."""

    def __init__(self, library: ctypes.CDLL):
        try:
            self.unit = ctypes.c_int.in_dll(library, "bitlane_gram_unit").value
            self.offset = ctypes.c_int.in_dll(library, "bitlane_gram_offset").value
            self._pack: Callable[..., Any] = library.bitlane_gram_pack
            self._multiply: Callable[..., Any] = library.bitlane_gram_multiply
        except (AttributeError, ValueError) as error:
            raise LibraryError(f"the library lacks a name ({error})") from None
        pointer, number = ctypes.c_void_p, ctypes.c_ssize_t
        self._pack.argtypes = [pointer, number, number, number, pointer, pointer]
        self._multiply.argtypes = [pointer, pointer, *[number] * 4, pointer]

    def pack(self, codes: Codes, first: int, packed: _PackedSlice) -> None:
        """Pack at most `SLICE` rows as columns `first` and on."""
        self._pack(codes.ctypes.data, *codes.shape, first, packed.rows.ctypes.data, packed.shifted.ctypes.data)

    def multiply(self, packed: _PackedSlice, rows: int, columns: int, panels: range, gram: Integers) -> None:
        """Add the products of a packed slice, on and above the diagonal of some panels."""
        units = packed.rows.ctypes.data, packed.shifted.ctypes.data
        self._multiply(*units, rows, columns, panels.start, panels.step, gram.ctypes.data)


@cache
def gram_kernels() -> GramKernels | None:
    """Return the kernels for the best instructions of this machine; None, and a log line, if none can be built."""
    choices = [cpu_flags(BYTE_PRODUCTS), cpu_flags()]
    for flags in choices if choices[0] else choices[1:]:
        try:
            return GramKernels(load_library([SOURCE], CONSTANTS, vectors=flags))
        except LibraryError as error:
            reason = error  # an old compiler lacks products of bytes, and has the others
    _logger.warning("note: Gram matrices are computed by numpy, several times slower than compiled code: %s", reason)
    return None


def _in_threads(work: Callable[[int], None], numbers: Iterable[int], threads: int) -> None:
    """Do work for each number."""
    if threads == 1:
        for number in numbers:
            work(number)
        return
    for _ in _pool(threads, os.getpid()).map(work, numbers):
        pass


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Return the threads of a process: a fork has none of its parent's."""
    return ThreadPoolExecutor(threads, "bitlane-gram")
