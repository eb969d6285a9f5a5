"""The encoder in C, `kernels.c`: built on this machine, and called by ctypes."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.draws import DRAW_ROUNDS
from bitlane.contract.encoding import POSITION_FRACTION
from bitlane.contract.layout import CHUNK
from bitlane.contract.prng import ROUND_KEYS
from bitlane.contract.prng import Words as RandomWords
from bitlane.support.c_library import LibraryError, load_library

from .column_bounds import VALUE_TYPES as VALUE_TYPES
from .positions import PositionMap
from .quantize import CUT
from .scaling import Matrix

SOURCE = Path(__file__).with_name("kernels.c")
CONSTANTS = {
    "POSITION_FRACTION": str(POSITION_FRACTION),
    "CUT": str(CUT),
    "CHUNK": str(CHUNK),
    "ROUND_KEYS": ",".join(map(str, ROUND_KEYS[:DRAW_ROUNDS])),
}

_logger = logging.getLogger(__name__)


class Kernels(NamedTuple):
    """Machine code that encodes rows; `_kernel` has the arguments of both functions.

    Attributes
    ----------
    encode_base, encode_draws : callable
        Write the base words and the draw words of rows. They run without the interpreter's lock.
    """

    encode_base: Callable[..., Any]
    encode_draws: Callable[..., Any]


class KernelArguments(ctypes.Structure):
    """The arguments of both functions, as `struct rows` in `kernels.c`."""

    _fields_ = (
        ("values", ctypes.c_void_p),
        ("type", ctypes.c_ssize_t),
        ("count", ctypes.c_ssize_t),
        ("columns", ctypes.c_ssize_t),
        ("multipliers", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("features", ctypes.c_ssize_t),
        ("base_bits", ctypes.c_ssize_t),
        ("runs", ctypes.c_void_p),
        ("of_rows", ctypes.c_void_p),
        ("masks", ctypes.c_void_p),
        ("sets", ctypes.c_ssize_t),
        ("feature_offsets", ctypes.c_void_p),
        ("row_offsets", ctypes.c_void_p),
        ("stride", ctypes.c_ssize_t),
        ("words", ctypes.c_void_p),
        ("region", ctypes.c_ssize_t),
    )


@dataclass(frozen=True, eq=False)
class RowsInRegion:
    """Where the rows of a table lie in a region.

    Attributes
    ----------
    words : uint64 array [words]
        The region; for draws [sets, words].
    row_offsets : int array [rows]
        Index of the first word of each row.
    stride : int
        From one word of a row to the next: `Geometry.rows_per_beat`.
    """

    words: NDArray[np.uint64]
    row_offsets: NDArray[np.intp]
    stride: int


@cache
def c_kernels() -> Kernels | None:
    """Return the kernels in C, built if this machine has not built them yet; None, and a log line, if it cannot."""
    try:
        library = load_library([SOURCE], CONSTANTS)
        return Kernels(
            _kernel(_function(library, "bitlane_encode_base")), _kernel(_function(library, "bitlane_encode_draws"))
        )
    except LibraryError as error:
        _logger.warning("note: samples are encoded by numpy, several times slower than compiled code: %s", error)
        return None


def _function(library: ctypes.CDLL, name: str) -> Callable[..., Any]:
    try:
        function: Callable[..., Any] = library[name]
    except AttributeError as error:
        raise LibraryError(f"the library lacks a function ({error})") from None
    function.argtypes, function.restype = [ctypes.POINTER(KernelArguments)], None  # type: ignore[attr-defined]
    return function


def _kernel(function: Callable[..., Any]) -> Callable[..., None]:
    """Return a function of the library as one of `Kernels`."""

    def encode(
        X: Matrix,
        mapped: PositionMap,
        runs: NDArray[np.intp],
        of_rows: RandomWords,
        masks: RandomWords,
        offsets: RandomWords,
        target: RowsInRegion,
    ) -> None:
        """Write the words of rows.

        Parameters
        ----------
        X : array [rows, n]
            uint8, int16, float32 or float64, in C order.
        mapped : PositionMap
        runs : int array [runs, 3]
            Stored features whose columns lie side by side: the first feature, its column, the number of features.
        of_rows : uint32 array [rows]
            From `contract.draws.row_words`; empty for base words without naive sampling.
        masks : uint32 array [sets]
            Bits of the words that each draw set inverts; empty for base words.
        offsets : uint32 array [s]
            From `contract.draws.feature_offsets`.
        target : RowsInRegion
            The words of these rows are overwritten.
        """
        features = len(mapped.columns)
        padding = (0, -features % CHUNK)
        multipliers, position_offsets = np.pad(mapped.multipliers, padding), np.pad(mapped.offsets, padding)
        feature_offsets = np.pad(offsets, padding)
        rows = KernelArguments(
            X.ctypes.data,
            VALUE_TYPES.index(X.dtype),
            *X.shape,
            multipliers.ctypes.data,
            position_offsets.ctypes.data,
            features,
            mapped.base_bits,
            runs.ctypes.data,
            of_rows.ctypes.data if len(of_rows) else None,
            masks.ctypes.data,
            len(masks),
            feature_offsets.ctypes.data,
            target.row_offsets.ctypes.data,
            target.stride,
            target.words.ctypes.data,
            target.words.shape[-1],
        )
        function(rows)

    return encode
