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
        self._columns, self._threads = columns, threads or os.cpu_count() or 1
        self._sums = np.zeros(columns, np.int64)
        self._width = -(-columns // PANEL) * PANEL
        self._gram = np.zeros((self._width, self._width), np.int64)
        self._kernels = gram_kernels()
        self._buffers: list[_Buffers] = []

    def add(self, *parts: Codes) -> None:
        """Add rows, given as int8 arrays [rows, m_k] that lie side by side; the sum of all m_k is m."""
        codes = [np.ascontiguousarray(part) for part in parts if part.shape[1]]
        count = len(parts[0])
        self.rows += count
        if self._kernels is None:
            self._add_by_numpy(codes)
            return
        starts = range(0, count, SLICE)
        together = SLICES_OF_THREAD * self._threads if self._threads > 1 else 1
        for first in range(0, len(starts), together):
            self._add_slices(codes, starts[first : first + together])

    def matrix(self) -> Integers:
        """Return the sum of q q' over all rows, int64 [m, m]."""
        gram = self._gram[: self._columns, : self._columns]
        offset = self._kernels.offset if self._kernels else 0
        upper = np.triu(gram - offset * self._sums[:, None])
        return np.asarray(upper + np.triu(upper, 1).T)

    def sums(self) -> Integers:
        """Return the sum of q over all rows, int64 [m]."""
        return np.array(self._sums)

    def _add_slices(self, codes: list[Codes], starts: range) -> None:
        assert self._kernels is not None
        kernels, threads = self._kernels, min(self._threads, self._width // PANEL)
        while len(self._buffers) < len(starts):
            self._buffers.append(_Buffers.of(self._width, self._columns, kernels.unit))
        filled = list(zip(self._buffers, starts, strict=False))
        counts = [min(SLICE, len(codes[0]) - start) for start in starts]

        def pack(index: int) -> None:
            buffers, start = filled[index]
            buffers.sums.fill(0)
            first = 0
            for part in codes:
                kernels.pack(part[start : start + SLICE], first, buffers)
                first += part.shape[1]

        def multiply(thread: int) -> None:
            for (buffers, _), count in zip(filled, counts, strict=True):
                kernels.multiply(buffers, count, thread, threads, self._gram)

        _in_threads(pack, range(len(starts)), self._threads)
        _in_threads(multiply, range(threads), threads)
        for buffers, _ in filled:
            self._sums += buffers.sums

    def _add_by_numpy(self, codes: list[Codes]) -> None:
        for start in range(0, len(codes[0]), FLOAT32_ROWS):
            rows = np.concatenate([part[start : start + FLOAT32_ROWS] for part in codes], axis=1)
            values = rows.astype(np.float32)
            self._gram[: self._columns, : self._columns] += (values.T @ values).astype(np.int64)
            self._sums += rows.sum(axis=0, dtype=np.int64)


@dataclass(frozen=True)
class _Buffers:
    """A packed slice: the units of rows and of columns, and the sums [m] of the columns."""

    rows: NDArray[np.uint32]
    shifted: NDArray[np.uint32]
    sums: NDArray[np.int32]

    @staticmethod
    def of(width: int, columns: int, unit: int) -> _Buffers:
        units = width * (SLICE // unit)
        return _Buffers(np.zeros(units, np.uint32), np.zeros(units, np.uint32), np.zeros(columns, np.int32))


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
        self._pack.argtypes = [pointer, number, number, number, *[pointer] * 3]
        self._multiply.argtypes = [pointer, pointer, *[number] * 4, pointer]

    def pack(self, codes: Codes, first: int, buffers: _Buffers) -> None:
        """Pack at most `SLICE` rows as columns `first` and on."""
        rows, columns = codes.shape
        sums = buffers.sums[first:].ctypes.data
        self._pack(codes.ctypes.data, rows, columns, first, buffers.rows.ctypes.data, buffers.shifted.ctypes.data, sums)

    def multiply(self, buffers: _Buffers, rows: int, start: int, step: int, gram: Integers) -> None:
        """Add the products of a packed slice, of every `step`-th panel from `start` on."""
        packed, shifted = buffers.rows.ctypes.data, buffers.shifted.ctypes.data
        self._multiply(packed, shifted, rows, len(buffers.sums), start, step, gram.ctypes.data)


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
    for _ in _pool(threads).map(work, numbers):
        pass


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "bitlane-gram")
