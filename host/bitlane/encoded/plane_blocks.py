"""The digit planes of a table, in blocks of rows: in memory or in a file."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bitlane.quantization.row_table import row_numbers

from .planes import PlaneRows, Planes

BLOCK_VALUES = 1 << 22  # of a block, at most
BLOCK_ROWS = (64, 1 << 16)  # least and most rows of a block, but for the last

RowNumbers = NDArray[np.intp]
Verify = Callable[[int, int], None]


def block_rows(features: int) -> int:
    """Return the rows of a block of a table with m stored features: a power of two."""
    least, most = BLOCK_ROWS
    return min(max(1 << (BLOCK_VALUES // features).bit_length() - 1, least), most)


class PlaneBlocks:
    """Blocks of rows as digit planes.

    Parameters
    ----------
    planes : sequence of uint64 arrays [digits, rows, chunks]
        The words of a plane lie side by side.
    features : int
        Features of a row.
    verify : callable, optional
        Called as ``verify(block, digits)`` before the first planes of a block are read; it raises DataError if they are
        damaged.
    checksums : uint32 array [blocks, digits], optional
        CRC-32 of each plane; computed when they are needed by default.
    """

    def __init__(
        self,
        planes: Sequence[Planes],
        features: int,
        verify: Verify | None = None,
        checksums: NDArray[np.uint32] | None = None,
    ):
        self.features = features
        self._planes, self._verify, self._checksums = planes, verify, checksums
        self._ends = np.cumsum([0, *(each.shape[1] for each in planes)])

    @property
    def rows(self) -> int:
        """Rows of all blocks."""
        return int(self._ends[-1])

    @property
    def nbytes(self) -> int:
        """Bytes of all planes."""
        return sum(each.nbytes for each in self._planes)

    @property
    def checksums(self) -> NDArray[np.uint32]:
        """CRC-32 of each plane, uint32 [blocks, digits]."""
        if self._checksums is None:
            found = [[zlib.crc32(np.ascontiguousarray(plane).data) for plane in each] for each in self._planes]
            self._checksums = np.array(found, np.uint32)
        return self._checksums

    def pieces(self, rows: range, step: int, digits: int) -> Iterator[Planes]:
        """Yield the first planes of consecutive rows, [digits, up to `step` rows, chunks], as views."""
        start = rows.start
        while start < rows.stop:
            block = int(np.searchsorted(self._ends, start, "right")) - 1
            first = int(self._ends[block])
            stop = min(start + step, rows.stop, int(self._ends[block + 1]))
            self._check(block, digits)
            yield self._planes[block][:digits, start - first : stop - first]
            start = stop

    def located(self, rows: range | RowNumbers, digits: int) -> PlaneRows:
        """Return the addresses of rows, of which the first planes are going to be read."""
        numbers = row_numbers(rows)
        blocks = np.searchsorted(self._ends, numbers, "right") - 1
        for block in np.unique(blocks).tolist():
            self._check(block, digits)
        starts = np.array([each.ctypes.data for each in self._planes], np.intp)
        strides = np.array([each.strides[0] for each in self._planes], np.intp)
        chunks = self._planes[0].shape[2]
        return PlaneRows(starts[blocks] + (numbers - self._ends[blocks]) * (8 * chunks), strides[blocks], chunks)

    def _check(self, block: int, digits: int) -> None:
        if self._verify is not None:
            self._verify(block, digits)
