"""Digit planes of blocks of rows: values to planes, planes to codes, to the words of the accelerator, and to draws.

The planes of a block are uint64 [digits, rows, chunks]: radix-4 digits of codes, the most significant one first, of 32
features a word. So the first planes are those of fewer bits. Machine code, `planes.c`, and numpy make the same bits.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.digits import pack_digits, unpack_digits
from bitlane.contract.draws import draw_words, feature_offsets
from bitlane.contract.encoding import POSITION_FRACTION
from bitlane.contract.layout import CHUNK, DIGIT_BITS
from bitlane.contract.prng import Words as RandomWords
from bitlane.quantization.c_kernels import CONSTANTS, VALUE_TYPES, KernelArguments
from bitlane.quantization.c_kernels import SOURCE as KERNELS
from bitlane.quantization.encode import feature_runs
from bitlane.quantization.positions import PositionMap
from bitlane.quantization.quantize import draw_ends
from bitlane.quantization.scaling import Matrix
from bitlane.support.c_library import LibraryError, load_library

SOURCE = Path(__file__).with_name("planes.c")
SMALL = 1 << 18  # values up to which numpy works, so that nothing is built
CODE_DIGITS = 4  # digits of an int8 code
DRAWN_DIGITS = 7  # digits below the base digits that the threshold of a draw takes
THRESHOLD_BITS = 16
SLACK = 2.0**-25  # of the range: what a value may be beyond its scale without being clipped

Planes = NDArray[np.uint64]
_logger = logging.getLogger(__name__)


class PlaneRows(NamedTuple):
    """Rows of blocks, by their addresses. Who makes them keeps the blocks alive.

    Attributes
    ----------
    addresses : int array [rows]
        Of the first word of the first plane.
    strides : int array [rows]
        Bytes from a plane to the next.
    chunks : int
        Words of a row in a plane.
    """

    addresses: NDArray[np.intp]
    strides: NDArray[np.intp]
    chunks: int

    def some(self, rows: slice) -> PlaneRows:
        """Return consecutive rows of these."""
        return PlaneRows(self.addresses[rows], self.strides[rows], self.chunks)

    def plane(self, digit: int) -> Planes:
        """Return a plane of these rows, uint64 [rows, chunks], by numpy."""
        words = np.empty((len(self.addresses), self.chunks), np.uint64)
        step = 8 * self.chunks
        for i, (address, stride) in enumerate(zip(self.addresses.tolist(), self.strides.tolist(), strict=True)):
            ctypes.memmove(words.ctypes.data + i * step, address + digit * stride, step)
        return words


class WordPlaces(NamedTuple):
    """Where the words of rows go.

    Attributes
    ----------
    words : uint64 array [words]
        For draws [sets, words].
    row_offsets : int array [rows]
        Index of the first word of each row.
    chunk_step, digit_step : int
        Words from a chunk of a row to the next, and from a digit to the next.
    """

    words: NDArray[np.uint64]
    row_offsets: NDArray[np.intp]
    chunk_step: int
    digit_step: int

    @classmethod
    def in_planes(cls, planes: Planes) -> WordPlaces:
        """Return the places of the planes [digits, rows, chunks] of a block, in C order."""
        _, rows, chunks = planes.shape
        return cls(planes.reshape(-1), np.arange(rows, dtype=np.intp) * chunks, 1, rows * chunks)

    def indices(self, digits: int, chunks: int) -> NDArray[np.intp]:
        """Return the index of each word, int [digits, rows, chunks]."""
        digit, chunk = np.arange(digits) * self.digit_step, np.arange(chunks) * self.chunk_step
        index: NDArray[np.intp] = digit[:, None, None] + self.row_offsets[:, None] + chunk
        return index


class ChosenRows(ctypes.Structure):
    """The arguments of `bitlane_move_planes`, as `struct chosen` in `planes.c`."""

    _fields_ = (
        ("addresses", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("count", ctypes.c_ssize_t),
        ("chunks", ctypes.c_ssize_t),
        ("first", ctypes.c_ssize_t),
        ("digits", ctypes.c_ssize_t),
        ("row_offsets", ctypes.c_void_p),
        ("chunk_step", ctypes.c_ssize_t),
        ("digit_step", ctypes.c_ssize_t),
        ("words", ctypes.c_void_p),
    )


class DrawnRows(ctypes.Structure):
    """The arguments of `bitlane_plane_draws`, as `struct drawn` in `planes.c`."""

    _fields_ = (
        ("addresses", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("count", ctypes.c_ssize_t),
        ("chunks", ctypes.c_ssize_t),
        ("first", ctypes.c_ssize_t),
        ("digits", ctypes.c_ssize_t),
        ("of_rows", ctypes.c_void_p),
        ("masks", ctypes.c_void_p),
        ("sets", ctypes.c_ssize_t),
        ("high_offsets", ctypes.c_void_p),
        ("low_offsets", ctypes.c_void_p),
        ("last_chunk", ctypes.c_uint64),
        ("row_offsets", ctypes.c_void_p),
        ("stride", ctypes.c_ssize_t),
        ("words", ctypes.c_void_p),
        ("region", ctypes.c_ssize_t),
    )


class PlaneKernels(NamedTuple):
    """Functions of `planes.c`. They run without the interpreter's lock."""

    encode: Callable[..., Any]
    codes: Callable[..., Any]
    move: Callable[..., Any]
    draw: Callable[..., Any]


def kernels_for(count: int) -> PlaneKernels | None:
    """Return the machine code for a table of so many values; None if numpy works on it."""
    return c_planes() if count >= SMALL else None


@cache
def c_planes() -> PlaneKernels | None:
    """Return the functions in C, built if this machine has not built them yet; None, and a log line, if it cannot."""
    try:
        library = load_library([KERNELS, SOURCE], CONSTANTS)
    except LibraryError as error:
        _logger.warning("note: tables are encoded by numpy, several times slower than compiled code: %s", error)
        return None
    size, pointer = ctypes.c_ssize_t, ctypes.c_void_p
    encode, codes = library.bitlane_encode_planes, library.bitlane_plane_codes
    move, draws = library.bitlane_move_planes, library.bitlane_plane_draws
    encode.argtypes = [ctypes.POINTER(KernelArguments), size, pointer]
    codes.argtypes = [pointer, size, size, size, size, size, pointer]
    move.argtypes, draws.argtypes = [ctypes.POINTER(ChosenRows)], [ctypes.POINTER(DrawnRows)]
    for function in (encode, codes, move, draws):
        function.restype = None
    return PlaneKernels(encode, codes, move, draws)


def encode_planes(kernels: PlaneKernels | None, X: Matrix, mapped: PositionMap, planes: Planes) -> NDArray[np.int64]:
    """Write the planes of rows, and return how many values of each stored feature are clipped: int64 [m].

    Parameters
    ----------
    kernels : PlaneKernels or None
        None is numpy.
    X : array of integers or floats [rows, n]
        Finite.
    mapped : PositionMap
        Its base bits are even, and at least two a plane: the high bits of the intervals are stored.
    planes : uint64 array [digits, rows, chunks]
        Overwritten. The words of a row, and the rows of a plane, lie side by side.
    """
    digits, _, chunks = planes.shape
    clipped = np.zeros(len(mapped.columns), np.int64)
    if kernels is None:
        top = 2.0 ** (mapped.base_bits + POSITION_FRACTION)
        slack = SLACK * top + 1.0
        with np.errstate(over="ignore"):
            place = X[:, mapped.columns].astype(np.float64) * mapped.multipliers + mapped.offsets
        clipped += ((place < -slack) | (place > top + slack)).sum(axis=0)
        intervals = mapped.positions(X).astype(np.int64) >> POSITION_FRACTION
        codes = np.minimum(intervals, (1 << mapped.base_bits) - 1) >> mapped.base_bits - DIGIT_BITS * digits
        words = np.zeros((len(X), chunks, digits), np.uint64)
        pack_digits(codes.astype(np.uint32), words)
        planes[:] = words.transpose(2, 0, 1)
        return clipped
    dtype = X.dtype if X.dtype in VALUE_TYPES else np.dtype(np.float64)
    X = np.ascontiguousarray(X, dtype)
    padding = (0, -len(mapped.columns) % CHUNK)
    multipliers, offsets = np.pad(mapped.multipliers, padding), np.pad(mapped.offsets, padding)
    runs, row_offsets = feature_runs(mapped.columns), np.arange(len(X), dtype=np.intp) * chunks
    rows = KernelArguments(
        values=X.ctypes.data,
        type=VALUE_TYPES.index(dtype),
        count=X.shape[0],
        columns=X.shape[1],
        multipliers=multipliers.ctypes.data,
        offsets=offsets.ctypes.data,
        features=len(mapped.columns),
        base_bits=mapped.base_bits,
        runs=runs.ctypes.data,
        row_offsets=row_offsets.ctypes.data,
        words=planes.ctypes.data,
        region=planes.strides[0] // 8,
    )
    kernels.encode(rows, digits, clipped.ctypes.data)
    return clipped


def plane_codes(kernels: PlaneKernels | None, planes: Planes, features: int, codes: NDArray[np.int8]) -> None:
    """Write the signed codes of one to four planes.

    Parameters
    ----------
    kernels : PlaneKernels or None
    planes : uint64 array [digits, rows, chunks]
        The words of a row, and the rows of a plane, lie side by side.
    features : int
        m: stored features.
    codes : int8 array [rows, m], in C order
        Overwritten: codes of two bits a plane.
    """
    digits, rows, chunks = planes.shape
    if kernels is None:
        unsigned = unpack_digits(np.moveaxis(planes, 0, 2), features)
        codes[:] = unsigned.astype(np.int16) - (1 << DIGIT_BITS * digits - 1)
        return
    kernels.codes(planes.ctypes.data, planes.strides[0] // 8, chunks, rows, features, digits, codes.ctypes.data)


def move_planes(kernels: PlaneKernels | None, rows: PlaneRows, places: WordPlaces, digits: int, first: int = 0) -> None:
    """Move the words of `digits` planes of rows, from plane `first` on, to where they are needed."""
    if kernels is None:
        words = np.stack([rows.plane(digit) for digit in range(first, first + digits)])
        places.words[places.indices(digits, rows.chunks)] = words
        return
    chosen = ChosenRows(
        rows.addresses.ctypes.data,
        rows.strides.ctypes.data,
        len(rows.addresses),
        rows.chunks,
        first,
        digits,
        places.row_offsets.ctypes.data,
        places.chunk_step,
        places.digit_step,
        places.words.ctypes.data,
    )
    kernels.move(chosen)


def draw_from_planes(
    kernels: PlaneKernels | None,
    rows: PlaneRows,
    features: int,
    base_digits: int,
    digits: int,
    of_rows: RandomWords,
    masks: RandomWords,
    places: WordPlaces,
) -> None:
    """Write draw words for several draw sets of a group. A value is the middle of its finest interval.

    Parameters
    ----------
    kernels : PlaneKernels or None
    rows : PlaneRows
    features : int
        m: stored features.
    base_digits, digits : int
        Digits of the base codes; digits that are stored, more than those. Seven digits below the base are used.
    of_rows : uint32 array [rows]
        From `bitlane.contract.draws.row_words`.
    masks : uint32 array [sets]
        `bitlane.contract.draws.DrawSet.mask` of each set, at most 16.
    places : WordPlaces
        `words` is [sets, words]; `digit_step` is not used.
    """
    below = min(digits - base_digits, DRAWN_DIGITS)
    if kernels is None:
        planes = np.stack([rows.plane(digit) for digit in range(base_digits, base_digits + below)])
        low = unpack_digits(np.moveaxis(planes, 0, 2), features).astype(np.int64)
        thresholds = (2 * low + 1) << THRESHOLD_BITS - 1 - DIGIT_BITS * below
        index = places.indices(1, rows.chunks)[0]
        for region, mask in zip(places.words, masks, strict=True):
            words = np.zeros((len(low), rows.chunks, 1), np.uint64)
            pack_digits(draw_ends(thresholds, draw_words(of_rows, features) ^ mask), words)
            region[index] = words[..., 0]
        return
    offsets = _in_lanes(np.pad(feature_offsets(features), (0, -features % CHUNK)))
    high, low_half = (offsets >> np.uint32(16)).astype(np.uint16), offsets.astype(np.uint16)
    last = (1 << DIGIT_BITS * ((features - 1) % CHUNK + 1)) - 1
    drawn = DrawnRows(
        rows.addresses.ctypes.data,
        rows.strides.ctypes.data,
        len(rows.addresses),
        rows.chunks,
        base_digits,
        below,
        of_rows.ctypes.data,
        masks.ctypes.data,
        len(masks),
        high.ctypes.data,
        low_half.ctypes.data,
        last,
        places.row_offsets.ctypes.data,
        places.chunk_step,
        places.words.ctypes.data,
        places.words.shape[-1],
    )
    kernels.draw(drawn)


def _in_lanes(offsets: RandomWords) -> RandomWords:
    """Return the offsets [chunks * 32] in the order of lanes: lane 4i + q of a chunk is feature 8q + i."""
    return np.ascontiguousarray(offsets.reshape(-1, 4, 8).transpose(0, 2, 1)).reshape(-1)
