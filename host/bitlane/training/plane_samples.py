"""The words of the accelerator from the planes of an encoded table: moved, or drawn, and never decoded."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import CHUNK, DIGIT_BITS
from bitlane.contract.packing import Words, base_row_offsets, draw_row_offsets, pack_labels
from bitlane.contract.precision import Precision
from bitlane.contract.prng import Words as RandomWords
from bitlane.encoded.planes import PlaneRows, WordPlaces, draw_from_planes, kernels_for, move_planes
from bitlane.encoded.table import EncodedTable
from bitlane.quantization.positions import position_map
from bitlane.quantization.quantize import base_codes, draw_codes
from bitlane.quantization.scaling import Scaling

PIECE = 1 << 20  # values of rows that a thread works on at a time


class PlaneSamples:
    """Rows of an encoded table as words, with the scales of the table.

    Parameters
    ----------
    table : EncodedTable
        With all of its columns.
    scaling : Scaling
        Of a training on it.
    precision : Precision
        Of double or nearest sampling, with at most the bits of the table.
    threads : int, optional
        As many as the machine has by default. The bits do not depend on it.
    """

    def __init__(self, table: EncodedTable, scaling: Scaling, precision: Precision, threads: int | None = None):
        self._digits = table.column_codes.digits
        self._located = table.coded.plane_rows(self._digits if precision.draws else precision.base_digits)
        self._stored = len(table.column_codes.active)
        self._kernels = kernels_for(table.size)
        self._threads = threads
        mapped = position_map(scaling, precision)
        position = np.full((1, 1), mapped.offsets[-1])  # of the intercept, if it is stored
        self._intercept = bool(scaling.intercept_value)
        self._intercept_code = int(base_codes(position, precision)[0, 0])
        ends = np.array([[0]], np.uint32)
        self._intercept_draws = int(draw_codes(position, precision, ends)[0, 0]) if precision.draws else 0

    @staticmethod
    def suit(table: Any, scaling: Scaling, precision: Precision) -> bool:
        """Return whether the words of a table are made from planes; otherwise from decoded values."""
        return (
            isinstance(table, EncodedTable)
            and precision.sampling in ("double", "nearest")
            and not precision.codebook
            and table.coded.all_columns
            and precision.bits <= table.column_codes.bits
            and np.array_equal(scaling.scale, table.column_codes.scale)
            and np.array_equal(scaling.center, table.column_codes.center)
        )

    def base(self, labels: NDArray[np.int16], geometry: Geometry, rows: slice) -> Words:
        """Return the base region of rows with these labels [rows, outputs]."""
        words = pack_labels(labels, geometry)
        digits, stride = geometry.base_digits, geometry.rows_per_beat
        if not digits:
            return words
        offsets = base_row_offsets(geometry)

        def move(located: PlaneRows, some: slice) -> None:
            places = WordPlaces(words, offsets[some], digits * stride, stride)
            move_planes(self._kernels, located, places, digits)

        self._each_piece(move, rows)
        for digit in range(digits if self._intercept else 0):
            value = self._intercept_code >> DIGIT_BITS * (digits - 1 - digit) & 3
            self._add_intercept(words, offsets, digits * stride, digit * stride, value)
        return words

    def draws(self, geometry: Geometry, rows: slice, of_rows: RandomWords, masks: RandomWords) -> list[Words]:
        """Return the draw regions of rows for several draw sets of a group.

        `of_rows` [rows] and `masks` [sets] are as for `bitlane.encoded.planes.draw_from_planes`.
        """
        words = np.zeros((len(masks), geometry.draw_words), np.uint64)
        offsets, stride = draw_row_offsets(geometry), geometry.rows_per_beat

        def draw(located: PlaneRows, some: slice) -> None:
            places = WordPlaces(words, offsets[some], stride, 0)
            draw_from_planes(
                self._kernels,
                located,
                self._stored,
                geometry.base_digits,
                self._digits,
                of_rows[some],
                masks,
                places,
            )

        self._each_piece(draw, rows)
        if self._intercept:
            for region in words:
                self._add_intercept(region, offsets, stride, 0, self._intercept_draws)
        return list(words)

    def _add_intercept(self, words: Words, offsets: NDArray[np.intp], chunk_step: int, step: int, digit: int) -> None:
        """Add a digit of the intercept, the feature behind the stored columns, to the word of each row."""
        chunk, place = divmod(self._stored, CHUNK)
        if digit:
            words[offsets + (chunk * chunk_step + step)] |= np.uint64(digit << DIGIT_BITS * place)

    def _each_piece(self, work: Callable[[PlaneRows, slice], None], rows: slice) -> None:
        """Call ``work(located, some)`` for pieces of the rows, `some` of them counted from their first one."""
        located = self._located.some(rows)
        count, step = len(located.addresses), max(1, PIECE // self._stored)
        pieces = [slice(start, start + step) for start in range(0, count, step)]
        workers = min(self._threads or os.cpu_count() or 1, len(pieces))
        if workers == 1:
            for some in pieces:
                work(located.some(some), some)
            return
        with ThreadPoolExecutor(workers) as pool:
            for _ in pool.map(lambda some: work(located.some(some), some), pieces):
                pass
