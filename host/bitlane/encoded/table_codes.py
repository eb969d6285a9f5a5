"""The codes of a table, of which rows and columns are chosen without decoding."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.layout import DIGIT_BITS
from bitlane.quantization.row_table import row_numbers

from .coded_rows import BLOCK_VALUES, CODE_BITS, CodeBlock, Codes, CodeScale
from .column_codes import ColumnCodes
from .plane_blocks import PlaneBlocks, RowNumbers
from .planes import CODE_DIGITS, PlaneKernels, PlaneRows, Planes, WordPlaces, kernels_for, move_planes, plane_codes

HEX_DIGITS = 32  # of a fingerprint


class TableCodes:
    """Codes of stored columns in digit planes, as `CodedRows`.

    Parameters
    ----------
    column_codes : ColumnCodes
        Of the n columns, of which m are stored.
    planes : PlaneBlocks
        Of all rows that were encoded.
    rows : range or int array, optional
        Numbers of the rows; all by default.
    stored : int array, optional
        Which of the stored columns the m are; all by default.
    """

    def __init__(
        self,
        column_codes: ColumnCodes,
        planes: PlaneBlocks,
        rows: range | RowNumbers | None = None,
        stored: RowNumbers | None = None,
    ):
        self.column_codes, self.planes = column_codes, planes
        self._rows = range(planes.rows) if rows is None else rows
        self._stored = stored

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and stored columns."""
        return len(self._rows), len(self.column_codes.active)

    @property
    def bits(self) -> int:
        """Bits of a code that `blocks` yields by default: those that are stored, but at most 8."""
        return min(self.column_codes.bits, CODE_BITS)

    @property
    def scale(self) -> CodeScale:
        """What codes of `bits` bits stand for."""
        return self._scale.at(self.column_codes.bits, self.bits)

    def blocks(self, bits: int | None = None) -> Iterator[CodeBlock]:
        """Yield all rows in order, with the high `bits` bits of their codes, at most 8; by default `self.bits`."""
        bits = self.bits if bits is None else bits
        digits = -(-bits // DIGIT_BITS)
        first, room = 0, self._room()
        for planes in self._pieces(digits):
            codes = self._codes_of(planes, room)
            yield CodeBlock(first, codes >> np.int8(1) if bits % DIGIT_BITS else codes)
            first += len(codes)

    def decode(self, values: NDArray[Any]) -> None:
        """Write the values of the m stored columns to where they are among n: float [rows, n]."""
        first, below = 0, max(0, self.column_codes.bits - CODE_BITS)
        scale, active, room = self._scale, self.column_codes.active, self._room()
        for planes in self._pieces(self.column_codes.digits):
            codes: NDArray[np.integer] = self._codes_of(planes[:CODE_DIGITS], room)
            if below:
                codes = codes.astype(np.int32) << below
                codes += self._codes_of(planes[CODE_DIGITS:], room).astype(np.int32) + (1 << below - 1)
            some = values[first : first + len(codes)]
            if len(active) == values.shape[1]:  # several times as fast, with the same operations
                np.add(codes, 0.5, out=some)
                some *= scale.unit
                some += scale.center
            else:
                some[:, active] = scale.values(codes)
            first += len(codes)

    def take_rows(self, rows: slice | NDArray[np.integer]) -> TableCodes:
        """Return some of the rows."""
        chosen = self._rows[rows] if isinstance(rows, slice) else row_numbers(self._rows)[rows]
        return TableCodes(self.column_codes, self.planes, chosen, self._stored)

    def take_columns(self, numbers: RowNumbers) -> TableCodes:
        """Return some of the n columns, by their numbers."""
        place = np.cumsum(self.column_codes.scale > 0) - 1  # of each column among the m stored ones
        features = place[numbers[self.column_codes.scale[numbers] > 0]]
        features = features if self._stored is None else self._stored[features]
        return TableCodes(self.column_codes.some(numbers), self.planes, self._rows, features)

    def with_columns(self, column_codes: ColumnCodes) -> TableCodes:
        """Return the same codes with other names of the columns."""
        return TableCodes(column_codes, self.planes, self._rows, self._stored)

    @property
    def all_columns(self) -> bool:
        """Whether no columns were chosen: words of some columns are not stored."""
        return self._stored is None

    def plane_rows(self, digits: int) -> PlaneRows:
        """Return where the first planes of the rows are, with all columns that are stored."""
        return self.planes.located(self._rows, digits)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the scales, the codes and the choice of rows and columns, in hexadecimal digits."""
        features = np.empty(0, np.intp) if self._stored is None else self._stored
        total = hashlib.sha256(f"{self.column_codes.bits} {self.shape} {len(features)} ".encode())
        scales = self.column_codes.center, self.column_codes.scale
        chosen: Any = (each.astype(np.int64) for each in (features, row_numbers(self._rows)))
        for array in (*scales, self.planes.checksums, *chosen):
            total.update(np.ascontiguousarray(array))  # type: ignore[arg-type]
        return total.hexdigest()[:HEX_DIGITS]

    @property
    def _scale(self) -> CodeScale:
        active = self.column_codes.active
        return CodeScale(
            self.column_codes.center[active], self.column_codes.scale[active] * 2.0 ** (1 - self.column_codes.bits)
        )

    def _pieces(self, digits: int) -> Iterator[Planes]:
        """Yield the first planes of the rows, [digits, rows of a piece, chunks]."""
        rows, step = self._rows, self._step
        if isinstance(rows, range) and rows.step == 1:
            yield from self.planes.pieces(rows, step, digits)
            return
        located = self.planes.located(rows, digits)
        for start in range(0, len(rows), step):
            some = located.some(slice(start, start + step))
            planes = np.empty((digits, len(some.addresses), some.chunks), np.uint64)
            move_planes(self._kernels, some, WordPlaces.in_planes(planes), digits)
            yield planes

    @property
    def _kernels(self) -> PlaneKernels | None:
        """Those for all rows that were encoded: small pieces of a large table take machine code, too."""
        return kernels_for(self.planes.rows * self.planes.features)

    @property
    def _step(self) -> int:
        """Rows of a piece."""
        return max(1, BLOCK_VALUES // self.planes.features)

    def _room(self) -> Codes:
        """Return room for the codes of a piece."""
        return np.empty((min(self._step, len(self._rows)), self.planes.features), np.int8)

    def _codes_of(self, planes: Planes, room: Codes) -> Codes:
        """Return the codes, int8 [rows, m], of one to four planes."""
        codes = room[: planes.shape[1]]
        plane_codes(self._kernels, planes, self.planes.features, codes)
        return codes if self._stored is None else np.ascontiguousarray(codes[:, self._stored])
